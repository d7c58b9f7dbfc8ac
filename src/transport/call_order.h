// Keeps what a channel enqueues in the order of its calls, whatever stream each call names, and
// tells how far the device has come with it. Thread-compatible, but for Done and Progress, which
// are for any thread; a channel's context is current.
#pragma once

#include <deque>

#include "base/mutex.h"
#include "base/status.h"
#include "cuda/resources.h"
#include "transport/channel.h"

namespace ucudnn::transport {

class CallOrder {
 public:
  explicit CallOrder(const cuda::Driver& driver);

  Status Create();

  // Before the first thing that a call enqueues on `stream`.
  Status Begin(CUstream stream) {
    if (!called_ || stream == stream_) return Status::Ok();
    return last_.HoldBack(stream);
  }

  // Behind the last one, also of a call that failed on its way.
  Status End(CUstream stream);

  // Whether all that was enqueued is done, or never will be.
  bool Done() const { return !last_.Pending(); }
  DeviceProgress Progress();

 private:
  // How many calls lie between the last mark and the next.
  size_t Gap() const UCUDNN_REQUIRES(mutex_);
  void TakeReached() UCUDNN_REQUIRES(mutex_);

  cuda::Event last_;
  CUstream stream_ = nullptr;
  bool called_ = false;

  // Marks behind calls: a ring, of which `pending_` marks from `oldest_` on may still be ahead of
  // the device.
  Mutex mutex_;
  std::deque<cuda::Event> marks_ UCUDNN_GUARDED_BY(mutex_);
  size_t oldest_ UCUDNN_GUARDED_BY(mutex_) = 0, pending_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t unmarked_ UCUDNN_GUARDED_BY(mutex_) = 0;  // calls behind the last mark
  uint64_t reached_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

}  // namespace ucudnn::transport
