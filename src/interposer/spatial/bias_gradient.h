// cudnnConvolutionBackwardBias in a process whose calls are split: this rank computes the gradient
// of its stripe, and the ranks' gradients are then summed, unless the program sums gradients
// itself.
#pragma once

#include <cudnn.h>

#include "interposer/spatial/splitter.h"

namespace ucudnn::interposer {

struct BiasGradientCall {
  cudnnHandle_t handle = nullptr;
  const void* alpha = nullptr;
  cudnnTensorDescriptor_t dy_descriptor = nullptr;
  const void* dy = nullptr;
  const void* beta = nullptr;
  cudnnTensorDescriptor_t db_descriptor = nullptr;
  void* db = nullptr;
};

// Runs the call. REQUIRES: calls are split, and the program has not excluded this call
// (Splitter::enabled).
cudnnStatus_t RunBiasGradient(const SplitContext& context, const BiasGradientCall& call);

}  // namespace ucudnn::interposer
