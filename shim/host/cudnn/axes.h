// Converts extents and strides to the engines' order of axes, which has three spatial axes: d, h
// and w. A tensor with two spatial axes has h and w, a tensor with one has only w. Pure.
#pragma once

#include <array>
#include <cstdint>

namespace hostgpu {

// Returns an array for d, h and w: its last `count` values are values[first], values[first + 1],
// ..., the others are `otherwise`.
template <class Values>
std::array<int64_t, 3> PerAxis(const Values& values, int first, int count, int64_t otherwise) {
  std::array<int64_t, 3> result;
  for (int i = 0; i < 3; ++i) {
    const int axis = i - (3 - count);
    result[i] = axis < 0 ? otherwise : values[first + axis];
  }
  return result;
}

// Returns the extents of d, h and w of a tensor or a filter that has three to five dimensions; an
// axis that it lacks has extent 1.
template <class Tensor>
std::array<int64_t, 3> SpatialExtents(const Tensor& tensor) {
  return PerAxis(tensor.dims, 2, tensor.dim_count - 2, 1);
}

// Returns the strides in the order n, c, d, h, w; an axis that the tensor lacks has stride 0.
template <class Tensor>
std::array<int64_t, 5> FiveStrides(const Tensor& tensor) {
  const auto spatial = PerAxis(tensor.strides, 2, tensor.dim_count - 2, 0);
  return {tensor.strides[0], tensor.strides[1], spatial[0], spatial[1], spatial[2]};
}

}  // namespace hostgpu
