// Waits, for a limited time, for what another thread, process or device does.
#pragma once

#include <chrono>
#include <thread>

namespace ucudnn::test {

// Waits until `condition` holds, and returns whether it did within `most`. A test waits as long as
// the default only if there is a fault.
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
