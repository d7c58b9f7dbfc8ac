#include "planner/multigrid/device/tensors.h"

#include <limits>
#include <string>

namespace ucudnn::multigrid {
namespace {

// Creates a descriptor with create(), describes it with set(handle, arguments...), and returns its
// owner. `name` is the name of `set`, for errors.
template <typename Handle, typename Set, typename... Arguments>
Result<Owned<Handle>> Make(const DeviceTarget& target, cudnnStatus_t (*create)(Handle*),
                           cudnnStatus_t (*destroy)(Handle), const char* name, const Set& set,
                           Arguments... arguments) {
  Handle handle = nullptr;
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(*target.functions, create(&handle), name));
  Owned<Handle> made(handle, {destroy});
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(*target.functions, set(handle, arguments...), name));
  return made;
}

}  // namespace

Result<Owned<cudnnHandle_t>> MakeHandle(const DeviceTarget& target) {
  return Make(target, target.functions->cudnnCreate, target.functions->cudnnDestroy, "cudnnCreate",
              [](cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; });
}

Result<Tensor> MakeTensor(const DeviceTarget& target, const std::array<Axis, 4>& axes) {
  const cudnn::Functions& functions = *target.functions;
  int extents[4];
  int strides[4];
  for (int i = 0; i < 4; ++i) {
    constexpr int64_t kMost = std::numeric_limits<int>::max();
    if (axes[i].extent > kMost || axes[i].stride > kMost) {
      return Status::Error("a tensor with an extent of " + std::to_string(axes[i].extent) +
                           " and a stride of " + std::to_string(axes[i].stride) +
                           " is beyond what cuDNN describes; a smaller --batch or --coarsening is "
                           "expected");
    }
    extents[i] = static_cast<int>(axes[i].extent);
    strides[i] = static_cast<int>(axes[i].stride);
  }
  return Make(target, functions.cudnnCreateTensorDescriptor, functions.cudnnDestroyTensorDescriptor,
              "cudnnSetTensorNdDescriptor", functions.cudnnSetTensorNdDescriptor,
              target.precision->type, 4, extents, strides);
}

Result<Tensor> MakePacked(const DeviceTarget& target, int batch, int64_t channels, int rows,
                          int columns) {
  const int64_t plane = int64_t{rows} * columns;
  return MakeTensor(
      target, {{{batch, channels * plane}, {channels, plane}, {rows, columns}, {columns, 1}}});
}

Result<Filter> MakeFilter(const DeviceTarget& target, const std::array<int, 4>& extents) {
  const cudnn::Functions& functions = *target.functions;
  return Make(target, functions.cudnnCreateFilterDescriptor, functions.cudnnDestroyFilterDescriptor,
              "cudnnSetFilterNdDescriptor", functions.cudnnSetFilterNdDescriptor,
              target.precision->type, CUDNN_TENSOR_NCHW, 4, extents.data());
}

Result<ConvolutionDescriptor> MakeConvolution(const DeviceTarget& target, const StepLayer& layer,
                                              int groups) {
  const cudnn::Functions& functions = *target.functions;
  return Make(target, functions.cudnnCreateConvolutionDescriptor,
              functions.cudnnDestroyConvolutionDescriptor, "cudnnSetConvolutionNdDescriptor",
              [&](cudnnConvolutionDescriptor_t made) {
                cudnnStatus_t status = functions.cudnnSetConvolutionNdDescriptor(
                    made, 2, layer.pad.data(), layer.stride.data(), layer.dilation.data(),
                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
                if (status != CUDNN_STATUS_SUCCESS) return status;
                status = functions.cudnnSetConvolutionGroupCount(made, groups);
                if (status != CUDNN_STATUS_SUCCESS) return status;
                return functions.cudnnSetConvolutionMathType(made, target.precision->math);
              });
}

Result<ActivationDescriptor> MakeActivation(const DeviceTarget& target,
                                            cudnnActivationMode_t mode) {
  const cudnn::Functions& functions = *target.functions;
  return Make(target, functions.cudnnCreateActivationDescriptor,
              functions.cudnnDestroyActivationDescriptor, "cudnnSetActivationDescriptor",
              functions.cudnnSetActivationDescriptor, mode, CUDNN_PROPAGATE_NAN, 0);
}

Result<OpTensorDescriptor> MakeOpTensor(const DeviceTarget& target, cudnnOpTensorOp_t operation) {
  const cudnn::Functions& functions = *target.functions;
  return Make(target, functions.cudnnCreateOpTensorDescriptor,
              functions.cudnnDestroyOpTensorDescriptor, "cudnnSetOpTensorDescriptor",
              functions.cudnnSetOpTensorDescriptor, operation, CUDNN_DATA_FLOAT,
              CUDNN_PROPAGATE_NAN);
}

Result<ReductionDescriptor> MakeSum(const DeviceTarget& target) {
  const cudnn::Functions& functions = *target.functions;
  return Make(target, functions.cudnnCreateReduceTensorDescriptor,
              functions.cudnnDestroyReduceTensorDescriptor, "cudnnSetReduceTensorDescriptor",
              functions.cudnnSetReduceTensorDescriptor, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT,
              CUDNN_PROPAGATE_NAN, CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES);
}

}  // namespace ucudnn::multigrid
