// Reads HOSTGPU_DEVICES and HOSTGPU_MEMORY, when the State is constructed. An invalid value is
// reported, and the default is used instead.
#pragma once

#include <cstddef>

namespace hostgpu {

struct Settings {
  int devices = 1;
  size_t memory_bytes = size_t{4} << 30;  // memory of each device
};

Settings ReadSettings();

}  // namespace hostgpu
