// HOSTGPU_NCCL_DELAY_US, HOSTGPU_NCCL_BANDWIDTH, HOSTGPU_NCCL_SERIAL and HOSTGPU_NCCL_VERSION. An
// invalid value is reported, and its default is used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hostgpu::nccl {

struct Settings {
  int64_t delay_ns = 0;         // of each message between two ranks
  size_t bytes_per_second = 0;  // of each direction between two ranks; 0: as fast as memory
  bool serial = false;          // one operation of a device at a time
  int version = 22809;          // the result of ncclGetVersion

  // Returns the time that `bytes` occupy the way from one rank to another.
  int64_t TransferNs(uint64_t bytes) const;
};

Settings ReadSettings();
// Read once in the process, at the first call.
const Settings& TheSettings();

}  // namespace hostgpu::nccl
