// Resolves device addresses, and handles wrong ones. On a GPU the kernel would fault and the
// context be lost; here a line on stderr names the fault, the call fails, and so does every later
// call in this process. Thread-safe.
#pragma once

#include <cstddef>

#include "shim/host/cudnn/api.h"

namespace hostgpu {

// Prints `what` and makes every later call fail.
void ReportDeviceFault(const char* what);
bool DeviceFaulted();

// When the enqueued work of a call runs: in stream order, or at a replay if the stream captures the
// call or the call becomes a node of a graph. Nothing touches memory until then.
enum class Runs { kNow, kAtReplay };

// The host address of the `bytes` bytes at device `address`, which must lie in one live allocation
// and be a multiple of `alignment`; `name` is the argument's name. If the call runs now, a wrong
// address is a reported fault of the device (EXECUTION_FAILED_CUDART); if it runs at a replay, it
// is an error of the call alone (BAD_PARAM_SIZE_INSUFFICIENT, BAD_PARAM_MISALIGNED_POINTER).
cudnnStatus_t Resolve(const char* name, const void* address, size_t bytes, size_t alignment,
                      Runs runs, void** host);

}  // namespace hostgpu
