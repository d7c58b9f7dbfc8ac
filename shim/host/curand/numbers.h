// A sequence of random numbers. Each number is computed from its position, so the results do not
// depend on how they are divided among calls. The sequence differs from all sequences of cuRAND.
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hostgpu::random {

// A position in the sequence of `seed`.
struct Place {
  uint64_t seed = 0;
  uint64_t first = 0;
};

// Writes `count` numbers in (0, 1].
void Uniform(Place place, float* output, size_t count);

// Writes `count` normally distributed numbers. `count` must be even, because the method makes
// pairs.
void Normal(Place place, float mean, float deviation, float* output, size_t count);

}  // namespace hostgpu::random
