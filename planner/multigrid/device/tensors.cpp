#include "planner/multigrid/device/tensors.h"

#include <limits>
#include <string>

namespace ucudnn::multigrid {
namespace {

// A handle that `create` makes, owned.
template <typename Handle>
Result<Owned<Handle>> Make(const DeviceTarget& target, cudnnStatus_t (*create)(Handle*),
                           cudnnStatus_t (*destroy)(Handle), const char* action) {
  Handle handle = nullptr;
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(*target.functions, create(&handle), action));
  return Owned<Handle>(handle, destroy);
}

}  // namespace

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
  UCUDNN_ASSIGN_OR_RETURN(
      Tensor tensor, Make(target, functions.cudnnCreateTensorDescriptor,
                          functions.cudnnDestroyTensorDescriptor, "cudnnCreateTensorDescriptor"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions,
                                     functions.cudnnSetTensorNdDescriptor(
                                         tensor.get(), target.precision->type, 4, extents, strides),
                                     "cudnnSetTensorNdDescriptor"));
  return tensor;
}

Result<Tensor> MakePacked(const DeviceTarget& target, int batch, int64_t channels, int rows,
                          int columns) {
  const int64_t plane = int64_t{rows} * columns;
  return MakeTensor(
      target, {{{batch, channels * plane}, {channels, plane}, {rows, columns}, {columns, 1}}});
}

Result<Filter> MakeFilter(const DeviceTarget& target, const std::array<int, 4>& extents) {
  const cudnn::Functions& functions = *target.functions;
  UCUDNN_ASSIGN_OR_RETURN(
      Filter filter, Make(target, functions.cudnnCreateFilterDescriptor,
                          functions.cudnnDestroyFilterDescriptor, "cudnnCreateFilterDescriptor"));
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(functions,
                  functions.cudnnSetFilterNdDescriptor(filter.get(), target.precision->type,
                                                       CUDNN_TENSOR_NCHW, 4, extents.data()),
                  "cudnnSetFilterNdDescriptor"));
  return filter;
}

Result<ConvolutionDescriptor> MakeConvolution(const DeviceTarget& target, const StepLayer& layer,
                                              int groups) {
  const cudnn::Functions& functions = *target.functions;
  UCUDNN_ASSIGN_OR_RETURN(
      ConvolutionDescriptor made,
      Make(target, functions.cudnnCreateConvolutionDescriptor,
           functions.cudnnDestroyConvolutionDescriptor, "cudnnCreateConvolutionDescriptor"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions,
      functions.cudnnSetConvolutionNdDescriptor(made.get(), 2, layer.pad.data(),
                                                layer.stride.data(), layer.dilation.data(),
                                                CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      "cudnnSetConvolutionNdDescriptor"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(functions,
                                     functions.cudnnSetConvolutionGroupCount(made.get(), groups),
                                     "cudnnSetConvolutionGroupCount"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions, functions.cudnnSetConvolutionMathType(made.get(), target.precision->math),
      "cudnnSetConvolutionMathType"));
  return made;
}

Result<ActivationDescriptor> MakeActivation(const DeviceTarget& target,
                                            cudnnActivationMode_t mode) {
  const cudnn::Functions& functions = *target.functions;
  UCUDNN_ASSIGN_OR_RETURN(
      ActivationDescriptor made,
      Make(target, functions.cudnnCreateActivationDescriptor,
           functions.cudnnDestroyActivationDescriptor, "cudnnCreateActivationDescriptor"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions, functions.cudnnSetActivationDescriptor(made.get(), mode, CUDNN_PROPAGATE_NAN, 0),
      "cudnnSetActivationDescriptor"));
  return made;
}

Result<OpTensorDescriptor> MakeOpTensor(const DeviceTarget& target, cudnnOpTensorOp_t operation) {
  const cudnn::Functions& functions = *target.functions;
  UCUDNN_ASSIGN_OR_RETURN(
      OpTensorDescriptor made,
      Make(target, functions.cudnnCreateOpTensorDescriptor,
           functions.cudnnDestroyOpTensorDescriptor, "cudnnCreateOpTensorDescriptor"));
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(functions,
                  functions.cudnnSetOpTensorDescriptor(made.get(), operation, CUDNN_DATA_FLOAT,
                                                       CUDNN_PROPAGATE_NAN),
                  "cudnnSetOpTensorDescriptor"));
  return made;
}

Result<ReductionDescriptor> MakeSum(const DeviceTarget& target) {
  const cudnn::Functions& functions = *target.functions;
  UCUDNN_ASSIGN_OR_RETURN(
      ReductionDescriptor made,
      Make(target, functions.cudnnCreateReduceTensorDescriptor,
           functions.cudnnDestroyReduceTensorDescriptor, "cudnnCreateReduceTensorDescriptor"));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions,
      functions.cudnnSetReduceTensorDescriptor(made.get(), CUDNN_REDUCE_TENSOR_ADD,
                                               CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                               CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES),
      "cudnnSetReduceTensorDescriptor"));
  return made;
}

}  // namespace ucudnn::multigrid
