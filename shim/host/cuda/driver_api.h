// Declares the driver API with default visibility, so that the stand-in exports it. All other
// symbols of the library are hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>

#include "shim/host/hostgpu.h"
#pragma GCC visibility pop
