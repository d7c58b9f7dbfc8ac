// Declares the runtime API with default visibility, so that the stand-in exports it. All other
// symbols of the library are hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>

// Declared here because some installations lack cuda_profiler_api.h, which declares them.
extern "C" {
cudaError_t CUDARTAPI cudaProfilerStart();
cudaError_t CUDARTAPI cudaProfilerStop();
}
#pragma GCC visibility pop

#include "shim/host/cuda/driver_api.h"
