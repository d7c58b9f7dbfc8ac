#include "transport/background.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/signals_blocked.h"

namespace ucudnn::transport {
namespace {

// The interval at which a waiting thread calls `given_up`.
constexpr std::chrono::milliseconds kAsking{20};

struct Finish {
  Mutex mutex;
  Condition changed;
  bool done UCUDNN_GUARDED_BY(mutex) = false;
  bool threw UCUDNN_GUARDED_BY(mutex) = false;
};

// Starts a thread. The result is not joinable if the system has no thread or memory for one.
std::thread Start(std::function<void()> work) {
  const SignalsBlocked blocked;
  std::thread thread;
  try {
    thread = std::thread(std::move(work));
  } catch (...) {
  }
  return thread;
}

// Runs `work`. Returns whether it ended without an exception.
bool Completes(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (...) {
    return false;  // out of memory: `work` may not have set all its results
  }
}

Ending AwaitFinish(Finish& finish, std::chrono::milliseconds timeout,
                   const std::function<bool()>& given_up) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  MutexLock lock(finish.mutex);
  while (!finish.done) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return Ending::kTooLate;
    if (given_up && given_up()) return Ending::kGivenUp;
    finish.changed.WaitUntil(finish.mutex, std::min(deadline, now + kAsking));
  }
  return finish.threw ? Ending::kThrew : Ending::kDone;
}

}  // namespace

bool RunInBackground(std::function<void()> work) {
  std::thread thread = Start([work = std::move(work)] { Completes(work); });
  if (!thread.joinable()) return false;
  thread.detach();
  return true;
}

Ending RunBounded(std::function<void()> work, std::chrono::milliseconds timeout,
                  const std::function<bool()>& given_up) {
  const auto finish = std::make_shared<Finish>();
  std::thread thread = Start([finish, work = std::move(work)] {
    const bool completed = Completes(work);
    MutexLock lock(finish->mutex);
    finish->threw = !completed;
    finish->done = true;
    finish->changed.NotifyAll();
  });
  if (!thread.joinable()) return Ending::kNoThread;
  const Ending ending = AwaitFinish(*finish, timeout, given_up);
  if (ending == Ending::kDone || ending == Ending::kThrew) {
    thread.join();
  } else {
    thread.detach();
  }
  return ending;
}

}  // namespace ucudnn::transport
