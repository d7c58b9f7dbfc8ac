// Descriptors of cuDNN as owned values. Thread-compatible.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/device/step_shape.h"

namespace ucudnn::multigrid {

// A descriptor and what frees it.
template <typename Handle>
class Owned {
 public:
  using Destroy = cudnnStatus_t (*)(Handle);

  Owned() = default;
  Owned(Handle handle, Destroy destroy) : handle_(handle), destroy_(destroy) {}
  Owned(Owned&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), destroy_(other.destroy_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) destroy_(handle_);
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  Destroy destroy_ = nullptr;
};

using Tensor = Owned<cudnnTensorDescriptor_t>;
using Filter = Owned<cudnnFilterDescriptor_t>;
using ConvolutionDescriptor = Owned<cudnnConvolutionDescriptor_t>;
using ActivationDescriptor = Owned<cudnnActivationDescriptor_t>;
using OpTensorDescriptor = Owned<cudnnOpTensorDescriptor_t>;
using ReductionDescriptor = Owned<cudnnReduceTensorDescriptor_t>;

// An axis of a tensor: how many, and how many numbers one lies behind the other.
struct Axis {
  int64_t extent = 1;
  int64_t stride = 1;
};

// For questions that no lane asks.
Result<Owned<cudnnHandle_t>> MakeHandle(const DeviceTarget& target);
// Of four axes. An error for strides beyond 31 bits.
Result<Tensor> MakeTensor(const DeviceTarget& target, const std::array<Axis, 4>& axes);
// Packed, [batch, channels, rows, columns].
Result<Tensor> MakePacked(const DeviceTarget& target, int batch, int64_t channels, int rows,
                          int columns);
Result<Filter> MakeFilter(const DeviceTarget& target, const std::array<int, 4>& extents);
// `layer` in as many groups as `copies` of it have.
Result<ConvolutionDescriptor> MakeConvolution(const DeviceTarget& target, const StepLayer& layer,
                                              int groups);
Result<ActivationDescriptor> MakeActivation(const DeviceTarget& target, cudnnActivationMode_t mode);
Result<OpTensorDescriptor> MakeOpTensor(const DeviceTarget& target, cudnnOpTensorOp_t operation);
Result<ReductionDescriptor> MakeSum(const DeviceTarget& target);

}  // namespace ucudnn::multigrid
