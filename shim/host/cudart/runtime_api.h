// The runtime API as the stand-in exports it: everything else in the library is hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>

// Of cuda_profiler_api.h, which not every installation of the headers has.
extern "C" {
cudaError_t CUDARTAPI cudaProfilerStart();
cudaError_t CUDARTAPI cudaProfilerStop();
}
#pragma GCC visibility pop

#include "shim/host/cuda/driver_api.h"
