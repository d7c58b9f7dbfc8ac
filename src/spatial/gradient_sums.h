// Who sums the gradients of filters and biases: the ranks of a group, or the program. The program
// may say it until the first gradient, for all ranks of its process at once. Thread-safe, and no
// call waits for a rank's.
#pragma once

#include <optional>

#include "base/mutex.h"
#include "base/status.h"

namespace ucudnn::spatial {

class GradientSums {
 public:
  // True: the ranks sum; none: the API decides.
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

  // A rank begins to agree on a gradient: nobody changes what this returns until End.
  std::optional<bool> Begin() {
    MutexLock lock(mutex_);
    ++agreeing_;
    return sums_;
  }
  // `runs`: the gradient was not refused, so that nobody changes it any more.
  void End(bool runs) {
    MutexLock lock(mutex_);
    --agreeing_;
    has_run_ = has_run_ || runs;
  }

 private:
  Mutex mutex_;
  std::optional<bool> sums_ UCUDNN_GUARDED_BY(mutex_);
  int agreeing_ UCUDNN_GUARDED_BY(mutex_) = 0;  // ranks
  bool has_run_ UCUDNN_GUARDED_BY(mutex_) = false;
};

}  // namespace ucudnn::spatial
