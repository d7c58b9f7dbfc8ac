// Copies between a tensor as the caller stores it and a dense fp32 copy of it, in parallel.
#pragma once

#include <array>
#include <cstdint>

#include "shim/host/engines/engine.h"

namespace hostgpu {

// A tensor of up to five axes. Strides are in elements, and negative if an axis is mirrored; the
// address is then that of element 0 of the mirrored axis, which is the last in memory.
struct TensorCopy {
  std::array<int64_t, 5> extents;
  std::array<int64_t, 5> user_strides;
  std::array<int64_t, 5> dense_strides;
};

void LoadTensor(const TensorCopy& copy, DataType type, const void* user, float* dense);

// user = alpha * dense + beta * user; if beta is 0, `user` is not read.
void BlendTensor(const TensorCopy& copy, DataType type, const float* dense, void* user, float alpha,
                 float beta);

}  // namespace hostgpu
