// The library calls of residual steps on a device, in single precision: act(conv(x) + bias) of one
// step or of many side by side, u + factor * that, sums of squares. No kernels of ours.
// Tensors are packed NCHW. Thread-compatible; what a lane enqueues runs on its stream, in order.
#pragma once

#include <cuda.h>
#include <cudnn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "cuda/driver.h"
#include "cuda/resources.h"
#include "cudnn/functions.h"

namespace ucudnn::multigrid {

// The caller owns both tables and keeps them and the context alive.
struct DeviceTarget {
  const cuda::Driver* driver = nullptr;
  const cudnn::Functions* functions = nullptr;
  CUcontext context = nullptr;
};

// Numbers in memory of the device. Movable.
class DeviceNumbers {
 public:
  static Result<DeviceNumbers> Make(const DeviceTarget& target, int64_t count);
  DeviceNumbers(DeviceNumbers&& other) noexcept;
  DeviceNumbers& operator=(DeviceNumbers&& other) noexcept;
  ~DeviceNumbers();

  float* data() const { return reinterpret_cast<float*>(address_); }
  int64_t count() const { return count_; }

 private:
  DeviceNumbers(const DeviceTarget& target, CUdeviceptr address, int64_t count)
      : target_(target), address_(address), count_(count) {}

  DeviceTarget target_;
  CUdeviceptr address_ = 0;
  int64_t count_ = 0;
};

// A stream with its own cuDNN handle and room.
class DeviceLane {
 public:
  // `room` numbers of scratch, `workspace` bytes.
  static Result<std::unique_ptr<DeviceLane>> Make(const DeviceTarget& target, int64_t room,
                                                  size_t workspace);
  ~DeviceLane();

  CUstream stream() const { return stream_.get(); }
  cudnnHandle_t handle() const { return handle_; }
  float* room() const { return room_->data(); }
  void* workspace() const { return workspace_ ? workspace_->data() : nullptr; }
  // Remembers what is enqueued up to now; what `other` is given from then on waits for that.
  Status Record();
  Status LetFollow(const DeviceLane& other);
  Status Wait();
  // Enqueues a copy on the device.
  Status Copy(const float* from, float* to, int64_t count);
  // Copy between host and device, and wait for the lane.
  Status Upload(const float* from, float* to, int64_t count);
  Status Download(const float* from, float* to, int64_t count);

 private:
  explicit DeviceLane(const DeviceTarget& target)
      : target_(target), stream_(*target.driver), reached_(*target.driver) {}

  DeviceTarget target_;
  cuda::Stream stream_;
  cuda::Event reached_;
  cudnnHandle_t handle_ = nullptr;
  std::optional<DeviceNumbers> room_;
  std::optional<DeviceNumbers> workspace_;
};

// A convolution that keeps its input's shape, and an activation.
struct StepShape {
  int channels = 1, rows = 1, columns = 1;  // of a state
  int kernel_rows = 1, kernel_columns = 1;  // odd; padded by half
  int groups = 1;
  bool is_tanh = false;  // else ReLU

  int64_t StateSize() const { return int64_t{channels} * rows * columns; }
  int64_t WeightCount() const {
    return int64_t{channels} * (channels / groups) * kernel_rows * kernel_columns;
  }
  bool operator==(const StepShape&) const = default;
};

// States of all images side by side: that of image n and place i begins at
// data + (n * image_distance + i * distance) * (numbers of a state).
struct StatesView {
  float* data = nullptr;
  int count = 1;
  int64_t image_distance = 1;
  int64_t distance = 1;  // 0: one state, read `count` times
};

class StepKernels {
 public:
  // For `batch` images and steps of `shape`, with engines whose workspace is at most
  // `workspace_limit` bytes.
  static Result<std::unique_ptr<StepKernels>> Make(const DeviceTarget& target,
                                                   const StepShape& shape, int batch,
                                                   size_t workspace_limit);
  ~StepKernels();

  // Makes ready for `count` steps side by side. One image's states begin `x_distance` states behind
  // those of the image before: `count` where they are packed. REQUIRES: no lane uses it.
  Status Prepare(int count, int x_distance, int out_distance);
  // Bytes that any call of what was prepared needs.
  size_t workspace() const { return workspace_; }

  // What one call works on: states side by side on the channel axis, [batch, count * C, H, W].
  struct Operands {
    int count = 1;
    const float* x = nullptr;
    int x_distance = 1;
    const float* weights = nullptr;  // [count * C, C / groups, kernel]
    const float* bias = nullptr;     // [count * C]
    float factor = 1;
    float* out = nullptr;
    int out_distance = 1;
  };
  // out = x + factor * act(conv(x) + bias), through the lane's room. One convolution call.
  // REQUIRES: Prepare of these counts and distances.
  Status Step(DeviceLane& lane, const Operands& operands);
  // The same where another input than what it is added to goes into the convolution:
  // out = out + factor * act(conv(x) + bias).
  Status AddTransformed(DeviceLane& lane, const Operands& operands);

  // y = a * x + b * y, of as many states.
  Status Combine(DeviceLane& lane, float a, const StatesView& x, float b, const StatesView& y);

  int batch() const { return batch_; }
  const StepShape& shape() const { return shape_; }
  int64_t convolution_calls() const { return convolution_calls_; }

 private:
  struct Prepared;
  StepKernels(const DeviceTarget& target, const StepShape& shape, int batch,
              size_t workspace_limit);
  Status Transform(DeviceLane& lane, const Prepared& prepared, const Operands& operands);
  const Prepared* Find(const Operands& operands) const;
  // The descriptor of a view; made at its first use.
  Result<cudnnTensorDescriptor_t> TensorOf(const StatesView& view);
  // The fastest algorithm by cuDNN's own ranking whose workspace is allowed.
  Status Choose(Prepared& prepared) const;

  DeviceTarget target_;
  StepShape shape_;
  int batch_;
  size_t workspace_limit_;
  size_t workspace_ = 0;
  cudnnActivationDescriptor_t activation_ = nullptr;
  cudnnOpTensorDescriptor_t add_ = nullptr;
  // By count and the distances of x and out.
  std::map<std::array<int, 3>, std::unique_ptr<Prepared>> prepared_;
  Mutex mutex_;
  // By count and the distances of images and states.
  std::map<std::array<int64_t, 3>, cudnnTensorDescriptor_t> views_ UCUDNN_GUARDED_BY(mutex_);
  std::atomic<int64_t> convolution_calls_ = 0;
};

}  // namespace ucudnn::multigrid
