// Reads HOSTGPU_NCCL_DELAY_US, HOSTGPU_NCCL_BANDWIDTH, HOSTGPU_NCCL_SERIAL and
// HOSTGPU_NCCL_VERSION. An invalid value is reported, and the default is used instead.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hostgpu::nccl {

struct Settings {
  int64_t delay_ns = 0;         // delay of each message between two ranks
  size_t bytes_per_second = 0;  // bandwidth of each direction between two ranks; 0: no limit
  bool serial = false;          // only one operation of a device runs at a time
  int version = 22809;          // the result of ncclGetVersion

  // Returns the time in which `bytes` are transferred from one rank to another.
  int64_t TransferNs(uint64_t bytes) const;
};

Settings ReadSettings();
// Returns the settings, which the first call reads.
const Settings& TheSettings();

}  // namespace hostgpu::nccl
