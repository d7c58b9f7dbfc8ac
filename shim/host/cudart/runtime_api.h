// The runtime API as the stand-in exports it; all other symbols of the library are hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>

// These are declared in cuda_profiler_api.h, which some installations of the headers lack.
extern "C" {
cudaError_t CUDARTAPI cudaProfilerStart();
cudaError_t CUDARTAPI cudaProfilerStop();
}
#pragma GCC visibility pop

#include "shim/host/cuda/driver_api.h"
