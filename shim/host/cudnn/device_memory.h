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

// When what a call enqueues runs: in stream order, or not before a replay, where the stream
// captures it or it becomes a node of a graph. Nothing touches memory until then.
enum class Runs { kNow, kAtReplay };

// The host address of the `bytes` bytes at device `address`, which must lie in one live allocation
// and be a multiple of `alignment`; `name` is what the call calls it. What is wrong with it is a
// fault of the device, reported (EXECUTION_FAILED_CUDART), where the call runs now; it is an error
// of the call alone (BAD_PARAM_SIZE_INSUFFICIENT, BAD_PARAM_MISALIGNED_POINTER) at replay.
cudnnStatus_t Resolve(const char* name, const void* address, size_t bytes, size_t alignment,
                      Runs runs, void** host);

}  // namespace hostgpu
