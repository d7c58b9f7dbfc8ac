// Makes the work that a channel enqueues run in the order of its calls, whatever stream each call
// names, and reports how many calls the device has finished.
//
// Uncaptured calls follow each other as if there were no captured calls. A captured call follows
// the previous captured call if both are in the same capture. It follows no other call. The reason:
// a capture must not wait for an event that was recorded outside of the capture, and work outside
// must not wait for an event of the capture. Done and Progress report only uncaptured calls,
// because launching a graph calls no function of the channel.
//
// Thread-compatible, except that any thread may call Done and Progress, which do not invalidate
// other threads' captures. The channel's context must be current.
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

  // Must precede the first work that a call enqueues on `stream`.
  Status Begin(CUstream stream);

  // Must follow the last work that a call enqueues on `stream`, even if the call fails.
  Status End(CUstream stream);

  // Returns whether the call that began last is captured.
  bool is_captured() const { return is_captured_; }

  // Returns whether all enqueued work of uncaptured calls is done, or can never be done.
  bool Done() const;
  DeviceProgress Progress();

 private:
  // Returns how many calls are between two marks at present.
  size_t Gap() const UCUDNN_REQUIRES(mutex_);
  void TakeReached() UCUDNN_REQUIRES(mutex_);

  Status BeginCaptured(CUstream stream);

  const cuda::Driver& driver_;

  // Recorded behind the last uncaptured call, on the stream of that call.
  cuda::Event last_;
  CUstream stream_ = nullptr;
  bool called_ = false;

  // Recorded behind the last captured call, on the stream of that call. `capture_` is the number of
  // that call's capture.
  cuda::Event last_captured_;
  CUstream captured_stream_ = nullptr;
  cuuint64_t capture_ = 0;  // 0: no call was captured yet

  // True if the call that began last is captured.
  bool is_captured_ = false;
  cuuint64_t begun_capture_ = 0;

  // Events (marks) behind some of the uncaptured calls, as a ring. From index `oldest_` on there
  // are `pending_` marks that the device may not have reached.
  Mutex mutex_;
  std::deque<cuda::Event> marks_ UCUDNN_GUARDED_BY(mutex_);
  size_t oldest_ UCUDNN_GUARDED_BY(mutex_) = 0, pending_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t unmarked_ UCUDNN_GUARDED_BY(mutex_) = 0;  // calls since the last mark
  uint64_t reached_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

}  // namespace ucudnn::transport
