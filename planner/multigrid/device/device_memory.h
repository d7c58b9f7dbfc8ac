// Memory and streams of a device, with a cuDNN handle for each stream. Thread-compatible; work that
// a lane enqueues runs on the lane's stream, in order.
#pragma once

#include <cuda.h>
#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cuda/driver.h"
#include "cuda/resources.h"
#include "cudnn/functions.h"
#include "planner/multigrid/device/precision.h"

namespace ucudnn::multigrid {

// UCUDNN_CUDNN calls a function of the target's cuDNN, and UCUDNN_DRIVER calls a function of its
// driver. Both return a Status, which names the function if the call failed.
#define UCUDNN_CUDNN(target, function, ...) \
  CudnnStatus(*(target).functions, (target).functions->function(__VA_ARGS__), #function)
#define UCUDNN_DRIVER(target, function, ...) \
  cuda::DriverStatus(*(target).driver, (target).driver->function(__VA_ARGS__), #function)

// An address in device memory. The numbers there have the target's precision.
using Address = std::byte*;

// The device to run on, and the precision. The caller owns both tables of functions and the
// context, and keeps all three alive.
struct DeviceTarget {
  const cuda::Driver* driver = nullptr;
  const cudnn::Functions* functions = nullptr;
  CUcontext context = nullptr;
  const Precision* precision = &kSinglePrecision;

  // Returns the address that is `count` numbers after `address`.
  Address Behind(Address address, int64_t count) const {
    return address + count * precision->bytes;
  }
};

// Owns numbers in device memory. Movable.
class DeviceNumbers {
 public:
  static Result<DeviceNumbers> Make(const DeviceTarget& target, int64_t count);

  Address data() const { return numbers_.get(); }
  int64_t count() const { return count_; }

 private:
  struct Free {
    DeviceTarget target;
    void operator()(Address address) const;
  };
  using Numbers = std::unique_ptr<std::byte, Free>;

  DeviceNumbers(Numbers numbers, int64_t count) : numbers_(std::move(numbers)), count_(count) {}

  Numbers numbers_;
  int64_t count_ = 0;
};

// Rounds up the position at which numbers begin in a block, so that CUDA kernels can read the
// numbers at full width.
inline int64_t Aligned(int64_t numbers, int64_t multiple = 64) {
  return (numbers + multiple - 1) / multiple * multiple;
}

// Numbers in device memory, with the descriptor of their layout.
struct TensorNumbers {
  cudnnTensorDescriptor_t tensor = nullptr;
  Address data = nullptr;
};

// Memory that calls on a lane need in addition to their operands: room for intermediate results,
// and cuDNN's workspace.
struct LaneNeeds {
  int64_t room = 0;      // in numbers
  size_t workspace = 0;  // in bytes

  void Include(const LaneNeeds& other);
};

// A stream with its own cuDNN handle, room and workspace.
class DeviceLane {
 public:
  static Result<std::unique_ptr<DeviceLane>> Make(const DeviceTarget& target);
  ~DeviceLane();

  // Provides at least `needs`, and waits for the lane. Memory that is too small is replaced by
  // memory at another address.
  Status Reserve(const LaneNeeds& needs);
  bool Holds(const LaneNeeds& needs) const {
    return needs.room <= held_.room && needs.workspace <= held_.workspace;
  }

  CUstream stream() const { return stream_.get(); }
  cudnnHandle_t handle() const { return handle_; }
  Address room() const { return room_ ? room_->data() : nullptr; }
  Address workspace() const { return workspace_ ? workspace_->data() : nullptr; }
  // Record marks the work enqueued so far. After LetFollow, later work of `other` waits for the
  // marked work.
  Status Record();
  Status LetFollow(const DeviceLane& other);
  Status Wait();
  // Enqueues a copy between two addresses of the device.
  Status Copy(Address from, Address to, int64_t count);
  // Add enqueues to = a * x + b * to, and Apply enqueues to = operation(a * x, b * y). Add
  // repeats x, and Apply repeats y, along axes of extent 1. An operand whose factor is 0 is not
  // read. REQUIRE: the target's context is current.
  Status Add(double a, const TensorNumbers& x, double b, const TensorNumbers& to);
  Status Apply(cudnnOpTensorDescriptor_t operation, double a, const TensorNumbers& x, double b,
               const TensorNumbers& y, const TensorNumbers& to);
  // Copy numbers between host and device, and wait for the lane. On the device the numbers have
  // `precision`, by default the target's.
  Status Upload(const double* from, Address to, int64_t count, const Precision& precision);
  Status Download(Address from, double* to, int64_t count, const Precision& precision);
  Status Upload(const double* from, Address to, int64_t count) {
    return Upload(from, to, count, *target_.precision);
  }
  Status Download(Address from, double* to, int64_t count) {
    return Download(from, to, count, *target_.precision);
  }

 private:
  explicit DeviceLane(const DeviceTarget& target)
      : target_(target), stream_(*target.driver), reached_(*target.driver) {}

  DeviceTarget target_;
  cuda::Stream stream_;
  cuda::Event reached_;
  cudnnHandle_t handle_ = nullptr;
  LaneNeeds held_;
  std::optional<DeviceNumbers> room_;
  std::optional<DeviceNumbers> workspace_;
  std::vector<std::byte> staging_;  // buffer for Upload and Download, in the device's precision
};

}  // namespace ucudnn::multigrid
