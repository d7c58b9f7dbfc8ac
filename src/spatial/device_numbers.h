// Packed numbers in a rank's device memory: their places and addresses, the scales that cuDNN
// applies to them, and TensorAdd, which adds such numbers.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "base/status.h"
#include "convolution/problem.h"
#include "cudnn/convolution_call.h"
#include "cudnn/functions.h"

namespace ucudnn::spatial {

// The alignment in bytes of objects in a rank's buffer. Every engine accepts this alignment.
inline constexpr size_t kPlaceAlignment = 256;
inline size_t Aligned(size_t bytes) {
  return (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
}

inline CUdeviceptr ToDevice(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline void* ToPointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

using cudnn::OneOf;
using cudnn::ZeroOf;

// A factor in host memory, kept as float and as double, because cuDNN reads a double for fp64
// tensors and a float for all others.
class Factor {
 public:
  explicit Factor(double value) : narrow_(static_cast<float>(value)), wide_(value) {}
  const void* Of(DataType type) const {
    return type == DataType::kDouble ? static_cast<const void*>(&wide_) : &narrow_;
  }

 private:
  float narrow_;
  double wide_;
};

// Adds packed numbers by cudnnAddTensor. A call allocates nothing. Not thread-safe.
class TensorAdd {
 public:
  explicit TensorAdd(const cudnn::Functions& functions) : functions_(functions) {}
  ~TensorAdd();
  TensorAdd(const TensorAdd&) = delete;
  TensorAdd& operator=(const TensorAdd&) = delete;

  // Fails if cuDNN lacks cudnnAddTensor.
  Status Create();
  // Enqueues to = from + beta * to, element by element, on the handle's stream. `type` is fp32 or
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
