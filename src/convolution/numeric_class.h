// The kind of arithmetic behind an engine. Plain values.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>

namespace ucudnn {

// FFT and Winograd round differently from a direct sum, so a caller who asked for a direct engine
// never gets an FFT or Winograd engine. The classes are in ascending order of their rounding
// errors.
enum class NumericClass { kDirect, kFft, kWinograd };

// Returns the class among `classes` that rounds the most; kDirect if there are none.
constexpr NumericClass Coarsest(std::span<const NumericClass> classes) {
  NumericClass coarsest = NumericClass::kDirect;
  for (const NumericClass numeric : classes) coarsest = std::max(coarsest, numeric);
  return coarsest;
}
constexpr NumericClass Coarsest(std::initializer_list<NumericClass> classes) {
  return Coarsest(std::span<const NumericClass>(classes.begin(), classes.size()));
}

}  // namespace ucudnn
