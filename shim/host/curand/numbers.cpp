#include "shim/host/curand/numbers.h"

#include <cmath>
#include <numbers>

namespace hostgpu::random {
namespace {

// Returns random number `i`, counted from 0 at `place`, by SplitMix64: its output function is
// applied to the seed plus a multiple of the golden gamma 0x9E3779B97F4A7C15 (Steele, Lea, Flood:
// Fast splittable pseudorandom number generators, 2014).
uint64_t Draw(Place place, uint64_t i) {
  uint64_t z = place.seed + (place.first + i + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

double InUnit(uint64_t draw) { return static_cast<double>((draw >> 11) + 1) * 0x1p-53; }

}  // namespace

void Uniform(Place place, float* output, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    output[i] = static_cast<float>((Draw(place, i) >> 40) + 1) * 0x1p-24f;
  }
}

// Uses the method of Box and Muller, which makes two normal numbers from two uniform ones.
void Normal(Place place, float mean, float deviation, float* output, size_t count) {
  for (size_t i = 0; i + 1 < count; i += 2) {
    const double radius = std::sqrt(-2 * std::log(InUnit(Draw(place, i))));
    const double angle = 2 * std::numbers::pi * InUnit(Draw(place, i + 1));
    output[i] = static_cast<float>(mean + deviation * radius * std::cos(angle));
    output[i + 1] = static_cast<float>(mean + deviation * radius * std::sin(angle));
  }
}

}  // namespace hostgpu::random
