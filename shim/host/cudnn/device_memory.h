// Device addresses made usable, and what happens when they are wrong: on a GPU the kernel would
// fault and the context be lost, so here a line on stderr names the fault, the call fails, and so
// does every later one in this process. Thread-safe.
#pragma once

#include <cstddef>

#include "shim/host/cudnn/api.h"

namespace hostgpu {

// Prints `what` and makes every later call fail.
void ReportDeviceFault(const char* what);
bool DeviceFaulted();

// The host address of the `bytes` bytes at device `address`, which must lie in one live allocation
// and be a multiple of `alignment`; `name` is what the call calls it. On a fault: reported, and
// null.
void* Resolve(const char* name, const void* address, size_t bytes, size_t alignment);

}  // namespace hostgpu
