// Parses the sizes in HOSTGPU_ variables.
#pragma once

#include <strings.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

namespace hostgpu {

// Parses a whole number with an optional unit. Returns false for any other text, or if the number
// of bytes does not fit in size_t.
inline bool ParseBytes(const char* text, size_t* bytes) {
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

}  // namespace hostgpu
