// Algorithm 0 of all operations, and algorithm 1 of int8. It multiplies tiles of patches, which it
// gathers into a scratch memory of fixed size per thread, so it needs no workspace. Supports every
// shape, but int8 only for forward. It sums in fp32 (fp64 for fp64 and int8).
//
// Each sum consists of parts that do not depend on the number of threads. For forward and
// backward_data they do not depend on the batch either; a filter gradient sums over the batch. The
// order in which oneDNN sums a part may differ at the edges of tiles (without AVX-512), or if tiles
// have fewer channels because there are few of them for the threads (with AVX-512).
#pragma once

#include "shim/host/engines/engine.h"

namespace hostgpu {

bool RunImplicitGemm(const ConvolutionShape& shape, double alpha, void* x, void* w, void* y,
                     double beta);

}  // namespace hostgpu
