// Numbers of two bytes, as IEEE 754 lays them out. Pure functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace ucudnn::multigrid {

// Returns the value of a number with `significant_bits` significant bits, the first of which is not
// stored: 11 for binary16, 8 for bfloat16.
inline double ValueOfTwoBytes(int significant_bits, uint16_t bits) {
  const int fraction_bits = significant_bits - 1;
  const int most = (1 << (15 - fraction_bits)) - 1;  // the field of infinities and NaNs
  const int field = (bits & 0x7FFF) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int units = field == 0 ? fraction : fraction + (1 << fraction_bits);
  double magnitude = std::ldexp(units, std::max(field, 1) - most / 2 - fraction_bits);
  if (field == most) magnitude = fraction == 0 ? HUGE_VAL : std::nan("");
  return std::copysign(magnitude, (bits & 0x8000) != 0 ? -1.0 : 1.0);
}

}  // namespace ucudnn::multigrid
