// to = from + beta to, element by element, by cudnnAddTensor: sums of packed numbers, whatever they
// mean. A call allocates nothing. Not thread-safe.
#pragma once

#include <cuda.h>

#include "base/status.h"
#include "cudnn/functions.h"

namespace ucudnn::spatial {

class TensorAdd {
 public:
  explicit TensorAdd(const cudnn::Functions& functions) : functions_(functions) {}
  ~TensorAdd();
  TensorAdd(const TensorAdd&) = delete;
  TensorAdd& operator=(const TensorAdd&) = delete;

  // An error where the library lacks the function.
  Status Create();
  // Enqueues on the handle's stream. `type` is fp32 or fp64, `beta` points to a number of that
  // type.
  Status Run(cudnnHandle_t handle, cudnnDataType_t type, CUdeviceptr from, size_t count,
             const void* beta, CUdeviceptr to);

 private:
  const cudnn::Functions& functions_;
  cudnnTensorDescriptor_t numbers_ = nullptr;
};

}  // namespace ucudnn::spatial
