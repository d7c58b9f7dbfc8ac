// The driver API as the stand-in exports it: everything else in the library is hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>

#include "shim/host/hostgpu.h"
#pragma GCC visibility pop
