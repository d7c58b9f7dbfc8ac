// Byte sizes as people write them: "64MiB", "8 KiB", "512" (bytes). Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ucudnn {

inline constexpr const char* kByteSizeForm = "a whole number of bytes or with B, KiB, MiB, GiB";

// Accepts a whole number and an optional unit: B, KiB, MiB or GiB, in upper or lower case. Spaces
// may stand before the unit.
Result<size_t> ParseByteSize(std::string_view text);

// Formats `bytes` in the largest unit that is at most `bytes`: as a whole number if the unit
// divides `bytes`, otherwise with one decimal. Examples: "64 MiB", "205.8 MiB", "17 B".
std::string FormatByteSize(size_t bytes);

}  // namespace ucudnn
