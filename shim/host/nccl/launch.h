// Enqueues the calls of a group on streams.
#pragma once

#include <vector>

#include "shim/host/nccl/group.h"

namespace hostgpu::nccl {

// Makes the calls of each communicator one piece of work on the stream of its first call; the other
// calls' streams wait for it.
Outcome Launch(std::vector<Call> calls);

}  // namespace hostgpu::nccl
