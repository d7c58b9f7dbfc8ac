// Visits the elements of several tensors that have the same shape and different strides.
#pragma once

#include <array>
#include <cstdint>

#include "shim/host/cudnn/descriptors.h"

namespace hostgpu {

using Extents = std::array<int, CUDNN_DIM_MAX>;

// Calls body(offsets) for each index of `dims` (rank >= 1); offsets[t] is the element's offset in
// tensor t.
template <size_t N, class Body>
void ForEachElement(int rank, const Extents& dims, const std::array<Extents, N>& strides,
                    const Body& body) {
  std::array<int64_t, N> offsets{};
  Extents index{};
  for (;;) {
    body(offsets);
    int axis = rank - 1;
    for (; axis >= 0; --axis) {
      for (size_t t = 0; t < N; ++t) offsets[t] += strides[t][axis];
      if (++index[axis] < dims[axis]) break;
      for (size_t t = 0; t < N; ++t) offsets[t] -= int64_t{strides[t][axis]} * dims[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

// Returns the strides with which `small` is repeated along its dimensions of extent 1.
inline Extents BroadcastStrides(const cudnnTensorStruct& small) {
  Extents strides = small.strides;
  for (int i = 0; i < small.dim_count; ++i) {
    if (small.dims[i] == 1) strides[i] = 0;
  }
  return strides;
}

inline bool SameShape(const cudnnTensorStruct& a, const cudnnTensorStruct& b) {
  if (a.dim_count != b.dim_count) return false;
  for (int i = 0; i < a.dim_count; ++i) {
    if (a.dims[i] != b.dims[i]) return false;
  }
  return true;
}

// Returns true if both tensors have the same type, shape and strides.
inline bool SameTensor(const cudnnTensorStruct& a, const cudnnTensorStruct& b) {
  if (a.type != b.type || !SameShape(a, b)) return false;
  for (int i = 0; i < a.dim_count; ++i) {
    if (a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

// Returns true if each dimension of `small` is 1 or equals the same dimension of `large`.
inline bool Broadcasts(const cudnnTensorStruct& small, const cudnnTensorStruct& large) {
  if (small.dim_count != large.dim_count) return false;
  for (int i = 0; i < small.dim_count; ++i) {
    if (small.dims[i] != large.dims[i] && small.dims[i] != 1) return false;
  }
  return true;
}

// Returns true if `tensor` has one value per channel of `of`: both have the same second dimension,
// and all other dimensions of `tensor` are 1.
inline bool IsPerChannel(const cudnnTensorStruct& tensor, const cudnnTensorStruct& of) {
  if (!Broadcasts(tensor, of)) return false;
  for (int i = 0; i < tensor.dim_count; ++i) {
    if (tensor.dims[i] != (i == 1 ? of.dims[1] : 1)) return false;
  }
  return true;
}

}  // namespace hostgpu
