// Reads the members of ncclConfig_t that change behaviour; the others are hints for GPUs and
// networks.
#pragma once

#include <optional>

#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

struct Config {
  std::optional<bool> blocking;  // ncclConfig_t::blocking; none if it is undefined
};

// Refuses a configuration that the real library would refuse, except for faults in hints. If
// `given` is null, all members are undefined.
Outcome ReadConfig(const ncclConfig_t* given, Config* config);

}  // namespace hostgpu::nccl
