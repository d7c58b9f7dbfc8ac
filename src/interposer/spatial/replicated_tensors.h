// The descriptors of tensors that the program has declared to be whole and equal on every rank.
// Thread-safe.
#pragma once

#include <cudnn.h>

#include <atomic>
#include <set>

#include "base/mutex.h"

namespace ucudnn::interposer {

class ReplicatedTensors {
 public:
  void Declare(cudnnTensorDescriptor_t tensor, bool replicated) {
    MutexLock lock(mutex_);
    if (replicated) {
      tensors_.insert(tensor);
    } else {
      tensors_.erase(tensor);
    }
    any_.store(!tensors_.empty(), std::memory_order_release);
  }
  bool Has(cudnnTensorDescriptor_t tensor) const {
    if (!any_.load(std::memory_order_acquire)) return false;
    MutexLock lock(mutex_);
    return tensors_.contains(tensor);
  }

 private:
  mutable Mutex mutex_;
  std::set<cudnnTensorDescriptor_t> tensors_ UCUDNN_GUARDED_BY(mutex_);
  std::atomic<bool> any_ = false;
};

}  // namespace ucudnn::interposer
