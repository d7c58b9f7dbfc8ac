// The runtime API as the stand-in exports it: everything else in the library is hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#include "shim/host/cuda/driver_api.h"
