// The driver API as the stand-in exports it: everything else in the library is hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>

// Of cudaProfiler.h, which not every installation of the headers has.
extern "C" {
CUresult CUDAAPI cuProfilerStart();
CUresult CUDAAPI cuProfilerStop();
}

#include "shim/host/hostgpu.h"
#pragma GCC visibility pop
