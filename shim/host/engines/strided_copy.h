// Copies in parallel between a tensor with the caller's strides and a dense fp32 copy of it.
#pragma once

#include <array>
#include <cstdint>

#include "shim/host/engines/engine.h"

namespace hostgpu {

// A tensor with up to five axes. Strides are in elements. On a mirrored axis the caller's stride is
// negative; the tensor's address is then the address of the axis's element 0, the last in memory.
struct TensorCopy {
  std::array<int64_t, 5> extents;
  std::array<int64_t, 5> user_strides;
  std::array<int64_t, 5> dense_strides;
};

void LoadTensor(const TensorCopy& copy, DataType type, const void* user, float* dense);

// Computes user = alpha * dense + beta * user. If beta is 0, `user` is not read.
void BlendTensor(const TensorCopy& copy, DataType type, const float* dense, void* user, float alpha,
                 float beta);

}  // namespace hostgpu
