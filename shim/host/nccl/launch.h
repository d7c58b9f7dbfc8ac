// Enqueues the calls of a group on streams.
#pragma once

#include <vector>

#include "shim/host/nccl/group.h"

namespace hostgpu::nccl {

// Enqueues the calls of each communicator as one piece of work, on the stream of its first call.
// The streams of its other calls wait for this work.
Outcome Launch(std::vector<Call> calls);

}  // namespace hostgpu::nccl
