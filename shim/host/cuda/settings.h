// HOSTGPU_DEVICES and HOSTGPU_MEMORY, read once. An invalid value is reported, and its default is
// used.
#pragma once

#include <cstddef>

namespace hostgpu {

struct Settings {
  int devices = 1;
  size_t memory_bytes = size_t{4} << 30;  // of each device
};

Settings ReadSettings();

}  // namespace hostgpu
