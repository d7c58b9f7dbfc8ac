// Declares the driver API and the functions of hostgpu.h with default visibility, so that the
// stand-in exports them. Other symbols of the library are hidden, except for the stubs and for
// earlier versions of functions, which their source files export.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>

#include "shim/host/hostgpu.h"
#pragma GCC visibility pop
