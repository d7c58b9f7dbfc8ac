// Records who sums the gradients of parameters over the ranks of a group: ucudnn or the program.
// The program may choose, once for all ranks of its process, until a rank begins the agreement on a
// gradient. If the ranks refuse that gradient, the program may choose again. Thread-safe; no call
// waits for another rank's call.
#pragma once

#include <optional>

#include "base/mutex.h"
#include "base/status.h"

namespace ucudnn::spatial {

class GradientSums {
 public:
  // `sums` is true if ucudnn sums, and false if the program sums. If `sums` is none, ucudnn sums
  // gradients of the legacy API and refuses gradients of the graph API.
  explicit GradientSums(std::optional<bool> sums) : sums_(sums) {}

  Status Set(bool sums) {
    MutexLock lock(mutex_);
    if (sums == sums_) return Status::Ok();
    if (has_run_ || agreeing_ > 0) {
      return Status::Error("a gradient of a split convolution has run before");
    }
    sums_ = sums;
    return Status::Ok();
  }

  // To be called when a rank begins the agreement on a gradient. The returned value does not change
  // until that rank calls End.
  std::optional<bool> Begin() {
    MutexLock lock(mutex_);
    ++agreeing_;
    return sums_;
  }
  // `runs` says that the gradient was not refused. Once End was called with `runs` true, the value
  // never changes.
  void End(bool runs) {
    MutexLock lock(mutex_);
    --agreeing_;
    has_run_ = has_run_ || runs;
  }

 private:
  Mutex mutex_;
  std::optional<bool> sums_ UCUDNN_GUARDED_BY(mutex_);
  int agreeing_ UCUDNN_GUARDED_BY(mutex_) = 0;  // number of ranks between Begin and End
  bool has_run_ UCUDNN_GUARDED_BY(mutex_) = false;
};

}  // namespace ucudnn::spatial
