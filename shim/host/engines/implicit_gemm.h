// Algorithm 0 of all operations, and algorithm 1 of int8. It multiplies tiles of patches, which it
// gathers into a scratch memory of fixed size per thread, so it needs no workspace. Supports every
// shape, but int8 only for forward. It sums in fp32 (fp64 for fp64 and int8).
//
// For forward in fp32 and fp64, the order of summation depends neither on the batch nor on the
// number of threads; without AVX-512, the order at the edges of tiles depends on the batch. For
// forward in 16-bit types and for backward_data it can depend on both: if a small batch gives too
// few tiles for all threads, tiles get fewer channels, and then longer parts of a sum are computed
// at once. A filter gradient sums over the batch, but the number of threads has no influence on its
// order.
#pragma once

#include "shim/host/engines/engine.h"

namespace hostgpu {

bool RunImplicitGemm(const ConvolutionShape& shape, double alpha, void* x, void* w, void* y,
                     double beta);

}  // namespace hostgpu
