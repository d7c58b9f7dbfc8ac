// Adds packed numbers in device memory by cudnnAddTensor. A call allocates nothing. Not
// thread-safe.
#pragma once

#include <cuda.h>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/functions.h"

namespace ucudnn::spatial {

class TensorAdd {
 public:
  explicit TensorAdd(const cudnn::Functions& functions) : functions_(functions) {}
  ~TensorAdd();
  TensorAdd(const TensorAdd&) = delete;
  TensorAdd& operator=(const TensorAdd&) = delete;

  // Fails if the library lacks the function.
  Status Create();
  // Enqueues to = from + beta to, element by element, on the handle's stream. `type` is fp32 or
  // fp64; `beta` points to a number of that type.
  Status Run(cudnnHandle_t handle, DataType type, CUdeviceptr from, size_t count, const void* beta,
             CUdeviceptr to);
  // Enqueues an addition of the number at address `number` to each element of `to`.
  Status Spread(cudnnHandle_t handle, DataType type, CUdeviceptr number, size_t count,
                CUdeviceptr to);

 private:
  Status Describe(cudnnTensorDescriptor_t descriptor, DataType type, size_t count) const;

  const cudnn::Functions& functions_;
  cudnnTensorDescriptor_t numbers_ = nullptr, one_ = nullptr;
};

}  // namespace ucudnn::spatial
