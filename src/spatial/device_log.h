// What the device begins and ends of split calls that are in CUDA graphs: a graph that is launched
// again makes no call of cuDNN, so two host functions around each call count it on the device. Once
// a rank has captured a split call, its other split calls are counted, too: all of them have one
// order, which ranks compare.
//
// Thread-safe. Lives as long as the process: a graph may be launched whenever it exists.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <optional>

#include "base/mutex.h"
#include "base/status.h"
#include "cuda/driver.h"

namespace ucudnn::spatial {

// A split call as the device runs it.
struct DeviceCall {
  uint64_t call = 0;    // the number of the call that was made or captured
  uint64_t kernel = 0;  // hash of what all ranks have in common
  int log_number = 0;   // in the log of kernels
  uint64_t exchanged_bytes = 0;
  bool is_captured = false;
  bool needs_others = false;
};

class DeviceLog {
 public:
  // The caller keeps the table alive as long as the process.
  static DeviceLog& Make(const cuda::Driver& driver);
  DeviceLog(const DeviceLog&) = delete;
  DeviceLog& operator=(const DeviceLog&) = delete;

  // Where a call's two host functions are. Opaque.
  struct Point;
  // Enqueue on `stream`, which may be capturing, that the call begins and that it ends. Where Begin
  // succeeds, End follows behind it, on a stream that is ordered so, whatever became of the call.
  // Begin allocates where the call is captured.
  Result<Point*> Begin(const DeviceCall& call, CUstream stream);
  Status End(Point* point, CUstream stream);

  // The oldest call that has begun and was not returned yet.
  std::optional<DeviceCall> NextBegun();
  uint64_t begun() const;
  uint64_t ended() const;
  // Keeps no more of what begins: nobody asks any longer.
  void Close();

 private:
  explicit DeviceLog(const cuda::Driver& driver) : driver_(driver) {}
  static void CUDA_CB RunBegin(void* point);
  static void CUDA_CB RunEnd(void* point);
  // Takes the point of a call that is not captured. The graph of one that is owns its point.
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
