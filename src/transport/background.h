// Background threads of ucudnn. They block all signals, so the program's signals are not delivered
// to them. Every wait for them is bounded.
#pragma once

#include <chrono>
#include <functional>

namespace ucudnn::transport {

// Runs `work` on a new thread; an exception in `work` ends only `work`. If the system has no thread
// left, does nothing and returns false.
bool RunInBackground(std::function<void()> work);

enum class Ending { kDone, kTooLate, kGivenUp, kNoThread, kThrew };

// Runs `work` on a new thread and waits until `work` ends, `timeout` has passed, or `given_up`
// (which may be empty) returns true. After a timeout, or once `given_up` has returned true, `work`
// continues in the background, so it must own everything that it uses.
Ending RunBounded(std::function<void()> work, std::chrono::milliseconds timeout,
                  const std::function<bool()>& given_up);

}  // namespace ucudnn::transport
