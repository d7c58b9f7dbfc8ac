// Enqueues the calls of a group on streams.
#pragma once

#include <vector>

#include "shim/host/nccl/group.h"

namespace hostgpu::nccl {

// Enqueues the calls of each communicator as one piece of work, on the stream of its first call.
// This work waits for earlier work on the streams of the other calls, and later work on these
// streams waits for it.
Outcome Launch(std::vector<Call> calls);

}  // namespace hostgpu::nccl
