// The members of ncclConfig_t that are more than hints about GPUs and networks.
#pragma once

#include <optional>

#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

struct Config {
  std::optional<bool> blocking;  // its member `blocking`, if it is set
};

// Refuses what the real library would refuse, except in hints. A null pointer is an empty
// configuration.
Outcome ReadConfig(const ncclConfig_t* given, Config* config);

}  // namespace hostgpu::nccl
