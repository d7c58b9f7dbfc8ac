// Descriptors of cuDNN, as objects that own and destroy them. Thread-compatible.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/device/step_shape.h"

namespace ucudnn::multigrid {

template <typename Handle>
struct Destroyer {
  cudnnStatus_t (*destroy)(Handle) = nullptr;
  void operator()(Handle handle) const { destroy(handle); }
};
// A descriptor and the function that destroys it.
template <typename Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Handle>>;

using Tensor = Owned<cudnnTensorDescriptor_t>;
using Filter = Owned<cudnnFilterDescriptor_t>;
using ConvolutionDescriptor = Owned<cudnnConvolutionDescriptor_t>;
using ActivationDescriptor = Owned<cudnnActivationDescriptor_t>;
using OpTensorDescriptor = Owned<cudnnOpTensorDescriptor_t>;
using ReductionDescriptor = Owned<cudnnReduceTensorDescriptor_t>;

// An axis of a tensor: its extent, and the distance, in numbers, between neighbouring indices.
struct Axis {
  int64_t extent = 1;
  int64_t stride = 1;
};

// Makes a cuDNN handle that belongs to no lane. It is used only for queries.
Result<Owned<cudnnHandle_t>> MakeHandle(const DeviceTarget& target);
// Makes a tensor of four axes. Fails if an extent or a stride exceeds 31 bits.
Result<Tensor> MakeTensor(const DeviceTarget& target, const std::array<Axis, 4>& axes);
// Makes a packed tensor, [batch, channels, rows, columns].
Result<Tensor> MakePacked(const DeviceTarget& target, int batch, int64_t channels, int rows,
                          int columns);
Result<Filter> MakeFilter(const DeviceTarget& target, const std::array<int, 4>& extents);
// Makes the convolution of `layer` with `groups` groups, for copies of the layer side by side.
Result<ConvolutionDescriptor> MakeConvolution(const DeviceTarget& target, const StepLayer& layer,
                                              int groups);
Result<ActivationDescriptor> MakeActivation(const DeviceTarget& target, cudnnActivationMode_t mode);
Result<OpTensorDescriptor> MakeOpTensor(const DeviceTarget& target, cudnnOpTensorOp_t operation);
Result<ReductionDescriptor> MakeSum(const DeviceTarget& target);

}  // namespace ucudnn::multigrid
