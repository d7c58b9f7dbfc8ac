// A pooling of the legacy API that is split over ranks.
#pragma once

#include <cudnn.h>

#include "cudnn/convolution_call.h"
#include "interposer/spatial/splitter.h"

namespace ucudnn::interposer {

// A call of cudnnPoolingForward or cudnnPoolingBackward.
struct PoolingCall {
  Operation operation = Operation::kForward;
  cudnnHandle_t handle = nullptr;
  cudnnPoolingDescriptor_t pooling = nullptr;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  cudnnTensorDescriptor_t x_descriptor = nullptr;
  const void* x = nullptr;
  cudnnTensorDescriptor_t y_descriptor = nullptr;
  void* y = nullptr;
  cudnnTensorDescriptor_t dy_descriptor = nullptr;  // for gradients only, like the members below
  const void* dy = nullptr;
  cudnnTensorDescriptor_t dx_descriptor = nullptr;
  void* dx = nullptr;
};

// Runs the call. REQUIRES: calls are split, and the program has not excluded this call
// (Splitter::enabled).
cudnnStatus_t RunPooling(const SplitContext& context, const PoolingCall& call);

}  // namespace ucudnn::interposer
