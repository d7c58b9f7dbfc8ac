// Waiting within bounds for what another thread, process or device does.
#pragma once

#include <chrono>
#include <thread>

namespace ucudnn::test {

// Waits until `condition` holds, and returns whether it did within `most`. Only a fault takes as
// long as the default.
template <typename Condition>
bool Becomes(const Condition& condition,
             std::chrono::milliseconds most = std::chrono::seconds(60)) {
  const auto deadline = std::chrono::steady_clock::now() + most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace ucudnn::test
