// Keeps what a channel enqueues in the order of its calls, whatever stream each call names, and
// tells how far the device has come with it. Calls whose stream is captured are in the order of
// the calls of their own capture alone: an event recorded outside must not be waited for inside,
// nor the reverse. Uncaptured calls go on as if the captured ones had not been, and Done and
// Progress tell of uncaptured calls alone: a launch of a graph is no call.
//
// Thread-compatible, but for Done and Progress, which are for any thread and disturb no other
// thread's capture; a channel's context is current.
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
  Status Begin(CUstream stream);

  // Behind the last one, also of a call that failed on its way.
  Status End(CUstream stream);

  // Whether the call that began last is captured.
  bool is_captured() const { return is_captured_; }

  // Whether all that was enqueued is done, or never will be.
  bool Done() const;
  DeviceProgress Progress();

 private:
  // How many calls lie between the last mark and the next.
  size_t Gap() const UCUDNN_REQUIRES(mutex_);
  void TakeReached() UCUDNN_REQUIRES(mutex_);

  Status BeginCaptured(CUstream stream);

  const cuda::Driver& driver_;

  // Behind the last uncaptured call, on the stream that it named.
  cuda::Event last_;
  CUstream stream_ = nullptr;
  bool called_ = false;

  // Behind the last captured call, on the stream that it named, in the capture of that number.
  cuda::Event last_captured_;
  CUstream captured_stream_ = nullptr;
  cuuint64_t capture_ = 0;  // 0: none

  // Of the call that began last.
  bool is_captured_ = false;
  cuuint64_t begun_capture_ = 0;

  // Marks behind calls: a ring, of which `pending_` marks from `oldest_` on may still be ahead of
  // the device.
  Mutex mutex_;
  std::deque<cuda::Event> marks_ UCUDNN_GUARDED_BY(mutex_);
  size_t oldest_ UCUDNN_GUARDED_BY(mutex_) = 0, pending_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t unmarked_ UCUDNN_GUARDED_BY(mutex_) = 0;  // calls behind the last mark
  uint64_t reached_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

}  // namespace ucudnn::transport
