// Background threads of ucudnn. They block all signals, so the program's signals are not delivered
// to them, and no thread waits for them without a bound.
#pragma once

#include <chrono>
#include <functional>

namespace ucudnn::transport {

// Runs `work` on a new thread; an exception ends only `work`. Returns false, and does nothing, if
// the system has no thread left.
bool RunInBackground(std::function<void()> work);

enum class Ending { kDone, kTooLate, kGivenUp, kNoThread, kThrew };

// Runs `work` on a new thread and waits until it ends, `timeout` is over, or `given_up` (which may
// be empty) returns true. In the last two cases `work` goes on, so it must own what it needs.
Ending RunBounded(std::function<void()> work, std::chrono::milliseconds timeout,
                  const std::function<bool()>& given_up);

}  // namespace ucudnn::transport
