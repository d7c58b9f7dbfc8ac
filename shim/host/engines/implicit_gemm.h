// Algorithm 0 of every operation: products of tiles of patches gathered on the fly, in a fixed
// scratch per thread and no workspace. Serves every shape; sums in fp32 (fp64 for fp64
// and int8, whose forward it has), in an order that depends on neither the batch nor the number of
// threads; at the edges of tiles on the former where the processor lacks AVX-512.
#pragma once

#include "shim/host/engines/engine.h"

namespace hostgpu {

bool RunImplicitGemm(const ConvolutionShape& shape, double alpha, void* x, void* w, void* y,
                     double beta);

}  // namespace hostgpu
