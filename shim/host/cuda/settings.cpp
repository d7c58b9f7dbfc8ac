#include "shim/host/cuda/settings.h"

#include <cstdio>
#include <cstdlib>

#include "shim/host/byte_size.h"

namespace hostgpu {
namespace {

constexpr int kMaxDevices = 64;

void Reject(const char* variable, const char* value, const char* accepted) {
  std::fprintf(stderr, "hostgpu: %s=%s is not %s; the default is used\n", variable, value,
               accepted);
}

}  // namespace

Settings ReadSettings() {
  Settings settings;
  if (const char* text = std::getenv("HOSTGPU_DEVICES"); text && *text) {
    char* end = nullptr;
    const long devices = std::strtol(text, &end, 10);
    if (*end == '\0' && devices >= 0 && devices <= kMaxDevices) {
      settings.devices = static_cast<int>(devices);
    } else {
      Reject("HOSTGPU_DEVICES", text, "a count from 0 to 64");
    }
  }
  if (const char* text = std::getenv("HOSTGPU_MEMORY"); text && *text) {
    size_t bytes = 0;
    if (ParseBytes(text, &bytes) && bytes > 0) {
      settings.memory_bytes = bytes;
    } else {
      Reject("HOSTGPU_MEMORY", text, "a whole number of bytes or with B, KiB, MiB, GiB");
    }
  }
  return settings;
}

}  // namespace hostgpu
