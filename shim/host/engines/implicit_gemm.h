// Algorithm 0 of every operation: products of tiles of patches that are gathered on the fly, in a
// fixed scratch per thread and no workspace. Serves every shape. It sums in fp32 (fp64 for fp64 and
// int8, of which it serves the forward operation), in an order that depends neither on the batch
// nor on the number of threads; without AVX-512, the order at the edges of tiles depends on the
// batch.
#pragma once

#include "shim/host/engines/engine.h"

namespace hostgpu {

bool RunImplicitGemm(const ConvolutionShape& shape, double alpha, void* x, void* w, void* y,
                     double beta);

}  // namespace hostgpu
