#include "shim/host/nccl/config.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace hostgpu::nccl {
namespace {

constexpr unsigned kFirstVersion = 21400;  // NCCL 2.14, the first with a configuration

Outcome CheckWithin(const char* name, int value, int least, int most) {
  if (value == NCCL_CONFIG_UNDEF_INT || (value >= least && value <= most)) return {};
  return {ncclInvalidArgument,
          std::string("Invalid config ") + name + " attribute value " + std::to_string(value)};
}

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
  ncclConfig_t known = Undefined();  // older programs know less of it, newer ones more
  std::memcpy(&known, given, std::min(size, sizeof known));
  if (known.magic != kNcclConfigMagic || known.version < kFirstVersion) {
    return {ncclInvalidArgument,
            "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER"};
  }
  struct Attribute {
    const char* name;
    int value, least, most;
  };
  const Attribute attributes[] = {
      {"blocking", known.blocking, 0, 1},       {"cgaClusterSize", known.cgaClusterSize, 0, 8},
      {"minCTAs", known.minCTAs, 1, INT_MAX},   {"maxCTAs", known.maxCTAs, 1, INT_MAX},
      {"splitShare", known.splitShare, 0, 1},   {"collnetEnable", known.collnetEnable, 0, 1},
      {"CTAPolicy", known.CTAPolicy, 0, 3},     {"shrinkShare", known.shrinkShare, 0, 1},
      {"nvlsCTAs", known.nvlsCTAs, 1, INT_MAX},
  };
  for (const Attribute& attribute : attributes) {
    Outcome o = CheckWithin(attribute.name, attribute.value, attribute.least, attribute.most);
    if (!o.ok()) return o;
  }
  constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;
  if (known.minCTAs != kUndefined && known.maxCTAs != kUndefined && known.minCTAs > known.maxCTAs) {
    return {ncclInvalidArgument, "Invalid config minCTAs " + std::to_string(known.minCTAs) +
                                     " above maxCTAs " + std::to_string(known.maxCTAs)};
  }
  if (known.blocking != kUndefined) config->blocking = known.blocking == 1;
  return {};
}

}  // namespace hostgpu::nccl
