#include "shim/host/nccl/settings.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "shim/host/byte_size.h"

namespace hostgpu::nccl {
namespace {

constexpr long kLongestDelayUs = 60'000'000, kHighestVersion = 999'999;

// Returns the variable's value; null if it is not set or empty.
const char* Value(const char* variable) {
  const char* const text = std::getenv(variable);
  return text && *text ? text : nullptr;
}

void RejectSetting(const char* variable, const char* accepted) {
  std::fprintf(stderr, "hostgpu: %s=%s is not %s; the default is used\n", variable,
               std::getenv(variable), accepted);
}

std::optional<long> WholeNumber(const char* text, long largest) {
  if (*text < '0' || *text > '9') return std::nullopt;
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  if (*end != '\0' || number > largest) return std::nullopt;
  return number;
}

}  // namespace

int64_t Settings::TransferNs(uint64_t bytes) const {
  if (bytes_per_second == 0) return 0;
  return static_cast<int64_t>(static_cast<double>(bytes) * 1e9 /
                              static_cast<double>(bytes_per_second));
}

Settings ReadSettings() {
  Settings settings;
  if (const char* text = Value("HOSTGPU_NCCL_DELAY_US")) {
    const auto delay_us = WholeNumber(text, kLongestDelayUs);
    if (!delay_us) RejectSetting("HOSTGPU_NCCL_DELAY_US", "microseconds from 0 to 60000000");
    settings.delay_ns = delay_us.value_or(0) * 1000;
  }
  if (const char* text = Value("HOSTGPU_NCCL_BANDWIDTH")) {
    if (!ParseBytes(text, &settings.bytes_per_second) || settings.bytes_per_second == 0) {
      settings.bytes_per_second = 0;
      RejectSetting("HOSTGPU_NCCL_BANDWIDTH",
                    "a whole number of bytes (of a second) or with B, KiB, MiB, GiB");
    }
  }
  if (const char* text = Value("HOSTGPU_NCCL_SERIAL")) {
    const auto serial = WholeNumber(text, 1);
    if (!serial) RejectSetting("HOSTGPU_NCCL_SERIAL", "0 or 1");
    settings.serial = serial == 1;
  }
  if (const char* text = Value("HOSTGPU_NCCL_VERSION")) {
    const auto version = WholeNumber(text, kHighestVersion);
    if (!version) RejectSetting("HOSTGPU_NCCL_VERSION", "a number like 22809");
    settings.version = static_cast<int>(version.value_or(settings.version));
  }
  return settings;
}

const Settings& TheSettings() {
  static const Settings settings = ReadSettings();
  return settings;
}

}  // namespace hostgpu::nccl
