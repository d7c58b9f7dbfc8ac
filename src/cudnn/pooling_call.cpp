#include "cudnn/pooling_call.h"

#include <array>

#include "cudnn/convolution_call.h"
#include "cudnn/descriptors.h"

namespace ucudnn::cudnn {

const char* PoolingName(const PoolingKind& kind) {
  if (kind.is_maximum()) return "max pooling";
  return kind.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
             ? "average pooling with padding"
             : "average pooling without padding";
}

const char* ReadPooling(const Functions& functions, Operation operation,
                        const PoolingDescriptors& descriptors, ConvolutionProblem& problem,
                        PoolingKind& kind) {
  Spatial y = {};
  if (const char* const unreadable =
          ReadChannelwise(functions, descriptors.x, descriptors.y, problem, y)) {
    return unreadable;
  }
  problem.operation = operation;
  int axes = 0;
  std::array<int, kMaxSpatial> window = {}, pad = {}, stride = {};
  if (descriptors.pooling == nullptr || functions.cudnnGetPoolingNdDescriptor == nullptr ||
      functions.cudnnGetPoolingNdDescriptor(descriptors.pooling, kMaxSpatial, &kind.mode, &kind.nan,
                                            &axes, window.data(), pad.data(),
                                            stride.data()) != CUDNN_STATUS_SUCCESS) {
    return "the pooling descriptor cannot be read";
  }
  if (axes != problem.spatial_rank) return "the pooling has not the tensors' axes";
  const int first = kMaxSpatial - axes;
  for (int i = 0; i < axes; ++i) {
    if (window[i] < 1 || stride[i] < 1 || pad[i] < 0 || pad[i] >= window[i]) {
      return "the padding is not less than the window";
    }
    problem.w[first + i] = window[i];
    problem.pad[first + i] = pad[i];
    problem.stride[first + i] = stride[i];
    if (problem.x[first + i] + 2 * pad[i] < window[i]) return "the window is larger than x";
  }
  return OutputExtents(problem) == y ? nullptr : "the output extents do not match the pooling";
}

cudnnStatus_t Pool(const Functions& functions, const PoolingDescriptors& d,
                   const ConvolutionCall& call) {
  if (call.operation == Operation::kForward) {
    return functions.cudnnPoolingForward(call.handle, d.pooling, call.alpha, d.x, call.x, call.beta,
                                         d.y, call.y);
  }
  return functions.cudnnPoolingBackward(call.handle, d.pooling, call.alpha, d.y, call.pooling->y,
                                        d.y, call.y, d.x, call.pooling->x, call.beta, d.x, call.x);
}

OwnedPooling::~OwnedPooling() {
  if (descriptors_.x != nullptr) functions_.cudnnDestroyTensorDescriptor(descriptors_.x);
  if (descriptors_.y != nullptr) functions_.cudnnDestroyTensorDescriptor(descriptors_.y);
  if (descriptors_.pooling != nullptr) {
    functions_.cudnnDestroyPoolingDescriptor(descriptors_.pooling);
  }
}

Status OwnedPooling::Create(const ConvolutionProblem& problem, const PoolingKind& kind) {
  const Functions& f = functions_;
  if (!f.HasPooling()) return Status::Error("the real cuDNN lacks what pooling needs");
  UCUDNN_RETURN_IF_ERROR(CreateTensor(f, problem, problem.x, problem.x_strides, descriptors_.x));
  UCUDNN_RETURN_IF_ERROR(
      CreateTensor(f, problem, OutputExtents(problem), problem.y_strides, descriptors_.y));
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(f, f.cudnnCreatePoolingDescriptor(&descriptors_.pooling),
                                     "creating a descriptor"));
  const int first = kMaxSpatial - problem.spatial_rank;
  return CudnnStatus(
      f,
      f.cudnnSetPoolingNdDescriptor(descriptors_.pooling, kind.mode, kind.nan, problem.spatial_rank,
                                    problem.w.data() + first, problem.pad.data() + first,
                                    problem.stride.data() + first),
      "describing a pooling");
}

}  // namespace ucudnn::cudnn
