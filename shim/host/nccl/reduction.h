// Sums, products, extremes and averages over the ranks' elements. Each step rounds to the element
// type, as in the real library's rings. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "shim/host/nccl/api.h"

namespace hostgpu::nccl {

// Returns 0 for an unknown type.
size_t ElementBytes(ncclDataType_t type);
// 8-bit floating-point types can be moved but not reduced, as on devices older than sm_90.
bool CanReduce(ncclDataType_t type);

struct Reduction {
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  // The rank whose element comes first; the others follow in the order of a ring. If negative, the
  // elements are cut into as many parts as there are ranks, and each part begins at another rank.
  int first = -1;
};

// to[i] = the reduction of from[rank][i] over all ranks; `to` may be one of `from`.
void Reduce(const Reduction& reduction, const std::vector<const char*>& from, char* to,
            size_t count);

}  // namespace hostgpu::nccl
