// Waits, up to a time limit, until another thread, process or device has made a condition true.
#pragma once

#include <chrono>
#include <thread>

namespace ucudnn::test {

// Polls `condition` every millisecond until it holds or `most` has passed. Returns whether it held.
// A correct test never waits for the default limit.
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
