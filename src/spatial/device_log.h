// A log of the split calls that the device begins and ends. Launching a graph calls no function of
// cuDNN. So each captured call has one host function before it and one behind it, and these
// functions write the log. Once a rank has captured a split call, its uncaptured split calls are
// logged, too. So the log has all calls in one order, and ranks compare this order.
//
// Thread-safe. Never destroyed, because a graph may be launched as long as it exists.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <optional>

#include "base/mutex.h"
#include "base/status.h"
#include "cuda/driver.h"

namespace ucudnn::spatial {

// A split call that the device runs.
struct DeviceCall {
  uint64_t call = 0;    // the number that the call got when it was made or captured
  uint64_t kernel = 0;  // hash of the properties that all ranks share
  int log_number = 0;   // number of the kernel in the KernelLog
  uint64_t exchanged_bytes = 0;
  bool is_captured = false;
  bool needs_others = false;
};

class DeviceLog {
 public:
  // The caller keeps `driver` alive until the process ends.
  static DeviceLog& Make(const cuda::Driver& driver);
  DeviceLog(const DeviceLog&) = delete;
  DeviceLog& operator=(const DeviceLog&) = delete;

  // The arguments of the two host functions of a call.
  struct Point;
  // Begin and End enqueue the host functions for the beginning and the end of the call on `stream`,
  // which may be capturing. After each successful Begin, End must follow, even if the call has
  // failed. The stream of End must be ordered behind the stream of Begin. Begin allocates if the
  // call is captured, or if more uncaptured calls are in progress than ever before.
  Result<Point*> Begin(const DeviceCall& call, CUstream stream);
  Status End(Point* point, CUstream stream);

  // Removes and returns the oldest call in the log; none: the log is empty.
  std::optional<DeviceCall> NextBegun();
  uint64_t begun() const;
  uint64_t ended() const;
  // Empties the log and logs no further calls. To be called when nobody will call NextBegun any
  // more.
  void Close();

 private:
  explicit DeviceLog(const cuda::Driver& driver) : driver_(driver) {}
  static void CUDA_CB RunBegin(void* point);
  static void CUDA_CB RunEnd(void* point);
  // Returns a point for a call that is not captured. (The point of a captured call belongs to its
  // graph.)
  Point* Take(const DeviceCall& call);

  const cuda::Driver& driver_;
  mutable Mutex mutex_;
  std::deque<Point> points_ UCUDNN_GUARDED_BY(mutex_);
  std::deque<Point*> free_ UCUDNN_GUARDED_BY(mutex_);
  std::deque<DeviceCall> waiting_ UCUDNN_GUARDED_BY(mutex_);
  uint64_t begun_ UCUDNN_GUARDED_BY(mutex_) = 0, ended_ UCUDNN_GUARDED_BY(mutex_) = 0;
  bool is_closed_ UCUDNN_GUARDED_BY(mutex_) = false;
};

struct DeviceLog::Point {
  DeviceLog* log = nullptr;
  DeviceCall call;
};

}  // namespace ucudnn::spatial
