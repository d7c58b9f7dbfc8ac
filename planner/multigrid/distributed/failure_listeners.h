// Who is told that a job of ranks has failed: what waits elsewhere than in Peers for other ranks.
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "base/mutex.h"

namespace ucudnn::multigrid {

class FailureListeners {
 public:
  // `tell` is called once when the job fails, at once where it has: by any thread, so it must not
  // wait. The number is what Remove takes.
  int Add(std::function<void()> tell) {
    MutexLock lock(mutex_);
    if (has_failed_) tell();
    listeners_.emplace(next_, std::move(tell));
    return next_++;
  }
  // When it returns, no call is under way.
  void Remove(int number) {
    MutexLock lock(mutex_);
    listeners_.erase(number);
  }
  void Tell() {
    MutexLock lock(mutex_);
    if (std::exchange(has_failed_, true)) return;
    failed_.NotifyAll();
    for (const auto& [number, tell] : listeners_) tell();
  }
  bool has_failed() {
    MutexLock lock(mutex_);
    return has_failed_;
  }
  // Waits so long at most for the job to fail: what follows from that may be noticed before.
  void AwaitFailure(std::chrono::milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    MutexLock lock(mutex_);
    while (!has_failed_ && failed_.WaitUntil(mutex_, deadline)) {
    }
  }

 private:
  Mutex mutex_;
  Condition failed_;
  std::map<int, std::function<void()>> listeners_ UCUDNN_GUARDED_BY(mutex_);
  int next_ UCUDNN_GUARDED_BY(mutex_) = 0;
  bool has_failed_ UCUDNN_GUARDED_BY(mutex_) = false;
};

}  // namespace ucudnn::multigrid
