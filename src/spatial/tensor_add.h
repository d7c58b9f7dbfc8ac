// Sums of packed numbers of any meaning by cudnnAddTensor. A call allocates nothing. Not
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
  // Run and Spread enqueue on the handle's stream. Run computes to = from + beta to, element by
  // element. `type` is fp32 or fp64, `beta` points to a number of that type.
  Status Run(cudnnHandle_t handle, DataType type, CUdeviceptr from, size_t count, const void* beta,
             CUdeviceptr to);
  // Adds the number at address `number` to each element of `to`.
  Status Spread(cudnnHandle_t handle, DataType type, CUdeviceptr number, size_t count,
                CUdeviceptr to);

 private:
  Status Describe(cudnnTensorDescriptor_t descriptor, DataType type, size_t count) const;

  const cudnn::Functions& functions_;
  cudnnTensorDescriptor_t numbers_ = nullptr, one_ = nullptr;
};

}  // namespace ucudnn::spatial
