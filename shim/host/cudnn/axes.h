// The axes of tensors in the engines' order: three spatial ones, d, h and w, of which a tensor may
// lack the first. Pure.
#pragma once

#include <array>
#include <cstdint>

namespace hostgpu {

// Returns the `count` values from `first` on for the last spatial axes, and `otherwise` for the
// other axes.
template <class Values>
std::array<int64_t, 3> PerAxis(const Values& values, int first, int count, int64_t otherwise) {
  std::array<int64_t, 3> result;
  for (int i = 0; i < 3; ++i) {
    const int axis = i - (3 - count);
    result[i] = axis < 0 ? otherwise : values[first + axis];
  }
  return result;
}

// Returns the spatial extents of a tensor or a filter of three to five dimensions, depth first.
template <class Tensor>
std::array<int64_t, 3> SpatialExtents(const Tensor& tensor) {
  return PerAxis(tensor.dims, 2, tensor.dim_count - 2, 1);
}

// Returns the strides in the order n, c, d, h, w.
template <class Tensor>
std::array<int64_t, 5> FiveStrides(const Tensor& tensor) {
  const auto spatial = PerAxis(tensor.strides, 2, tensor.dim_count - 2, 0);
  return {tensor.strides[0], tensor.strides[1], spatial[0], spatial[1], spatial[2]};
}

}  // namespace hostgpu
