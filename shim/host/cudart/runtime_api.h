// Declares the runtime API with default visibility, so that the stand-in exports it. Other symbols
// of the library are hidden, except for the stubs and for the functions that nvcc's code calls,
// which kernels.cpp exports.
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
