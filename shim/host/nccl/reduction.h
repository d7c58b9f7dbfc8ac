// Computes sums, products, minima, maxima and averages of the ranks' elements. Each step is rounded
// to the element type, as in the real library's rings. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "shim/host/nccl/api.h"

namespace hostgpu::nccl {

// Returns the bytes of one element; 0 for an unknown type.
size_t ElementBytes(ncclDataType_t type);
// Returns true if elements of the type can be reduced. As on devices older than sm_90, 8-bit
// floating-point types can only be copied.
bool CanReduce(ncclDataType_t type);

struct Reduction {
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  // The rank whose element is the first in each reduction; the other ranks follow in the order of a
  // ring. If `first` is negative, the elements are divided into as many parts as there are ranks,
  // and the reduction of each part begins with a different rank.
  int first = -1;
};

// Sets to[i] to the reduction of from[rank][i] over all ranks. `to` may be one of `from`.
void Reduce(const Reduction& reduction, const std::vector<const char*>& from, char* to,
            size_t count);

}  // namespace hostgpu::nccl
