// Sums of packed numbers, whatever they mean, by cudnnAddTensor. A call allocates nothing. Not
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

  // An error where the library lacks the function.
  Status Create();
  // Both enqueue on the handle's stream.
  // to = from + beta to, element by element. `type` is fp32 or fp64, `beta` points to a number of
  // that type.
  Status Run(cudnnHandle_t handle, DataType type, CUdeviceptr from, size_t count, const void* beta,
             CUdeviceptr to);
  // to += the one number at `number`, in each element.
  Status Spread(cudnnHandle_t handle, DataType type, CUdeviceptr number, size_t count,
                CUdeviceptr to);

 private:
  Status Describe(cudnnTensorDescriptor_t descriptor, DataType type, size_t count) const;

  const cudnn::Functions& functions_;
  cudnnTensorDescriptor_t numbers_ = nullptr, one_ = nullptr;
};

}  // namespace ucudnn::spatial
