// Threads of ours: they take none of the program's signals, and nobody waits for them for ever.
#pragma once

#include <chrono>
#include <functional>

namespace ucudnn::transport {

// Runs `work` on a thread of its own. False, and nothing happens, where the system gives none. What
// `work` throws ends it.
bool RunInBackground(std::function<void()> work);

enum class Ending { kDone, kTooLate, kGivenUp, kNoThread, kThrew };

// The same, and waits for it: not after `timeout`, and not when `given_up` (may be empty) says so.
// `work` goes on then, so it owns what it needs.
Ending RunBounded(std::function<void()> work, std::chrono::milliseconds timeout,
                  const std::function<bool()>& given_up);

}  // namespace ucudnn::transport
