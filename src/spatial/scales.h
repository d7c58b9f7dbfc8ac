// Scales in the form that cuDNN reads, and the alignment and addresses of places in device memory.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "convolution/problem.h"
#include "cudnn/convolution_call.h"

namespace ucudnn::spatial {

// The alignment in bytes of objects in a rank's buffer, so that every engine accepts them.
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

}  // namespace ucudnn::spatial
