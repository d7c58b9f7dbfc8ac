#include "shim/host/cuda/settings.h"

#include <strings.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace hostgpu {
namespace {

constexpr int kMaxDevices = 64;

// A whole number with an optional unit; false when it is anything else or does not fit.
bool ParseBytes(const char* text, size_t* bytes) {
  struct Unit {
    const char* name;
    int shift;
  };
  static constexpr Unit kUnits[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
  if (*text < '0' || *text > '9') return false;
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text, &end, 10);
  if (errno != 0) return false;
  while (*end == ' ') ++end;
  for (const Unit& unit : kUnits) {
    if (strcasecmp(end, unit.name) != 0) continue;
    *bytes = size_t{number} << unit.shift;
    return *bytes >> unit.shift == number;
  }
  return false;
}

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
