// Converts device addresses to host addresses, and handles wrong addresses. On a GPU the kernel
// would fault and the context would be lost. Here a line on stderr names the fault, the call fails,
// and every later call of this process that enqueues work fails too. If the call's work runs at the
// launch of a graph (Runs::kAtReplay), only the call itself fails. Thread-safe.
#pragma once

#include <cstddef>

#include "shim/host/cudnn/api.h"

namespace hostgpu {

// Prints `what` and makes every later call fail.
void ReportDeviceFault(const char* what);
bool DeviceFaulted();

// kNow: the enqueued work of a call runs in stream order. kAtReplay: the work runs when a graph is
// launched, because the stream captures the call or the call becomes a node of a graph; the memory
// is not accessed before the launch.
enum class Runs { kNow, kAtReplay };

// Sets `host` to the host address of the `bytes` bytes at the device address `address`. The bytes
// must be in one live allocation, and the address must be a multiple of `alignment`. `name` is the
// argument's name in messages. If the call runs now, a wrong address is a reported fault of the
// device (EXECUTION_FAILED_CUDART). If it runs at a launch, only the call fails
// (BAD_PARAM_SIZE_INSUFFICIENT, BAD_PARAM_MISALIGNED_POINTER).
cudnnStatus_t Resolve(const char* name, const void* address, size_t bytes, size_t alignment,
                      Runs runs, void** host);

}  // namespace hostgpu
