// Callbacks for the failure of a job of ranks. They end waits for other ranks that Peers does not
// manage, such as waits on a channel of a device. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "base/mutex.h"

namespace ucudnn::multigrid {

class FailureListeners {
 public:
  // Calls tell() once when the job fails, or now if it has failed already. Any thread may call
  // tell(). This object's lock is held during the call, so tell() must neither wait nor call this
  // object. Returns a number for Remove.
  int Add(std::function<void()> tell) {
    MutexLock lock(mutex_);
    if (has_failed_) tell();
    listeners_.emplace(next_, std::move(tell));
    return next_++;
  }
  // Removes a listener. On return, no call of the listener is running.
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
  // Waits for the job to fail, but at most for `timeout`. A rank may notice a consequence of the
  // failure before it learns of the failure.
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
