#include "shim/host/nccl/config.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace hostgpu::nccl {
namespace {

constexpr unsigned kFirstVersion = 21400;  // NCCL 2.14.0, the first version with ncclConfig_t

ncclConfig_t Undefined() {
  constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;
  return {0,          0,          0,          kUndefined, kUndefined, kUndefined,
          kUndefined, nullptr,    kUndefined, kUndefined, nullptr,    kUndefined,
          kUndefined, kUndefined, kUndefined, kUndefined, kUndefined};
}

}  // namespace

Outcome ReadConfig(const ncclConfig_t* given, Config* config) {
  if (!given) return {};
  size_t size;
  std::memcpy(&size, given, sizeof size);
  if (size < offsetof(ncclConfig_t, cgaClusterSize)) {
    return {ncclInvalidArgument,
            "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER"};
  }
  ncclConfig_t known = Undefined();  // older programs pass fewer members, newer programs more
  std::memcpy(&known, given, std::min(size, sizeof known));
  if (known.magic != kNcclConfigMagic || known.version < kFirstVersion) {
    return {ncclInvalidArgument,
            "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER"};
  }
  const int blocking = known.blocking;
  if (blocking == NCCL_CONFIG_UNDEF_INT) return {};
  if (blocking != 0 && blocking != 1) {
    return {ncclInvalidArgument,
            "Invalid config blocking attribute value " + std::to_string(blocking)};
  }
  config->blocking = blocking == 1;
  return {};
}

}  // namespace hostgpu::nccl
