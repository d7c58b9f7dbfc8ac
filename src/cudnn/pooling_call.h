// Poolings of the legacy API as forward and backward_data of a convolution in which each channel
// has its own window. Plain values; the functions are thread-safe as far as cuDNN is.
#pragma once

#include <cudnn.h>

#include "convolution/problem.h"
#include "cudnn/functions.h"

namespace ucudnn::cudnn {

struct ConvolutionCall;

// How a pooling computes the result of a window.
struct PoolingKind {
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;

  bool operator==(const PoolingKind&) const = default;
  bool is_maximum() const {
    return mode == CUDNN_POOLING_MAX || mode == CUDNN_POOLING_MAX_DETERMINISTIC;
  }
};
const char* PoolingName(const PoolingKind& kind);  // such as "max pooling"

struct PoolingDescriptors {
  cudnnPoolingDescriptor_t pooling = nullptr;
  cudnnTensorDescriptor_t x = nullptr;  // also the descriptor of dx
  cudnnTensorDescriptor_t y = nullptr;  // also the descriptor of dy
};

// The tensors that the gradient of a pooling reads besides dy: input and output of the forward
// pooling.
struct PoolingOperands {
  const void* x = nullptr;
  const void* y = nullptr;
};

// Reads `descriptors` as a problem: k = c = groups, and w is the window. Returns null on success,
// otherwise the reason (static text) why ucudnn passes such a call on unchanged. Allocates nothing.
const char* ReadPooling(const Functions& functions, Operation operation,
                        const PoolingDescriptors& descriptors, ConvolutionProblem& problem,
                        PoolingKind& kind);

// Calls the real pooling with the handle, scales and tensors of `call`. A forward call reads
// `call.x` and writes `call.y`; a gradient has its dx in `call.x`, its dy in `call.y`, and reads
// `call.pooling`.
cudnnStatus_t Pool(const Functions& functions, const PoolingDescriptors& descriptors,
                   const ConvolutionCall& call);

// The descriptors of a pooling, which this object owns. Destroyed through the real library.
class OwnedPooling {
 public:
  explicit OwnedPooling(const Functions& functions) : functions_(functions) {}
  ~OwnedPooling();
  OwnedPooling(const OwnedPooling&) = delete;
  OwnedPooling& operator=(const OwnedPooling&) = delete;

  // Creates the descriptors of `problem`, with the problem's strides. May be called only once.
  // REQUIRES: ReadPooling made `problem`.
  Status Create(const ConvolutionProblem& problem, const PoolingKind& kind);
  const PoolingDescriptors& get() const { return descriptors_; }

 private:
  const Functions& functions_;
  PoolingDescriptors descriptors_;
};

}  // namespace ucudnn::cudnn
