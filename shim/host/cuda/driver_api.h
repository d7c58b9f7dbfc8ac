// The driver API as the stand-in exports it; all other symbols of the library are hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>

#include "shim/host/hostgpu.h"
#pragma GCC visibility pop
