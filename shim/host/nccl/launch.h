// Puts the calls of one group on streams.
#pragma once

#include <vector>

#include "shim/host/nccl/group.h"

namespace hostgpu::nccl {

// The calls of one communicator become one piece of work, on the stream of the first call; the
// other streams wait for it.
Outcome Launch(std::vector<Call> calls);

}  // namespace hostgpu::nccl
