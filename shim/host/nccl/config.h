// ncclConfig_t, as far as it is more than a hint about GPUs and networks.
#pragma once

#include <optional>

#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

struct Config {
  std::optional<bool> blocking;  // what it says of it
};

// Refuses what the real library would refuse, but for the hints. A null pointer is an empty
// configuration.
Outcome ReadConfig(const ncclConfig_t* given, Config* config);

}  // namespace hostgpu::nccl
