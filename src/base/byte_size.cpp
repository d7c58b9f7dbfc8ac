#include "base/byte_size.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <limits>

#include "base/text.h"

namespace ucudnn {
namespace {

struct Unit {
  const char* name;
  size_t bytes;
};

constexpr std::array<Unit, 4> kUnits = {
    {{"GiB", size_t{1} << 30}, {"MiB", size_t{1} << 20}, {"KiB", size_t{1} << 10}, {"B", 1}}};

}  // namespace

Result<size_t> ParseByteSize(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  size_t number = 0;
  const auto [end, error] =
      std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (error != std::errc()) {
    return Status::Error("'" + std::string(text) + "' is not a size: expected " + kByteSizeForm);
  }
  const std::string_view unit = Trim(std::string_view(end, trimmed.data() + trimmed.size() - end));
  if (unit.empty()) return number;
  for (const Unit& known : kUnits) {
    if (!EqualsIgnoreCase(unit, known.name)) continue;
    if (number > std::numeric_limits<size_t>::max() / known.bytes) {
      return Status::Error("'" + std::string(text) + "' is larger than any memory");
    }
    return number * known.bytes;
  }
  return Status::Error("'" + std::string(text) + "' has an unknown unit: expected " +
                       kByteSizeForm);
}

std::string FormatByteSize(size_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes < unit.bytes) continue;
    char buffer[32];
    if (bytes % unit.bytes == 0) {
      std::snprintf(buffer, sizeof buffer, "%zu %s", bytes / unit.bytes, unit.name);
    } else {
      std::snprintf(buffer, sizeof buffer, "%.1f %s",
                    static_cast<double>(bytes) / static_cast<double>(unit.bytes), unit.name);
    }
    return buffer;
  }
  return "0 B";
}

}  // namespace ucudnn
