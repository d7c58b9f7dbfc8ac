// Puts the calls of one group on streams.
#pragma once

#include <vector>

#include "shim/host/nccl/group.h"

namespace hostgpu::nccl {

// Those of one communicator become one piece of work, on the stream of the first, which the other
// streams wait for.
Outcome Launch(std::vector<Call> calls);

}  // namespace hostgpu::nccl
