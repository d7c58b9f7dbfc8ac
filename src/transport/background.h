// Background threads of ucudnn. They take none of the program's signals, and no thread waits for
// them for ever.
#pragma once

#include <chrono>
#include <functional>

namespace ucudnn::transport {

// Runs `work` on a thread of its own. Returns false, without an effect, if the system has no
// thread. An exception ends `work`.
bool RunInBackground(std::function<void()> work);

enum class Ending { kDone, kTooLate, kGivenUp, kNoThread, kThrew };

// Runs `work` on a thread of its own and waits for it, until `timeout` is over or `given_up` (may
// be empty) returns true. In the latter cases `work` goes on, so it must own what it needs.
Ending RunBounded(std::function<void()> work, std::chrono::milliseconds timeout,
                  const std::function<bool()>& given_up);

}  // namespace ucudnn::transport
