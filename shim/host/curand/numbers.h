// A sequence of random numbers in which each is computed from its place, so the number of calls
// that draw it does not matter. It differs from all of cuRAND's sequences. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hostgpu::random {

// Begins at place `first` of the sequence of `seed`.
struct Place {
  uint64_t seed = 0;
  uint64_t first = 0;
};

// Draws numbers in (0, 1].
void Uniform(Place place, float* output, size_t count);

// `count` is even: numbers come in pairs, from two draws.
void Normal(Place place, float mean, float deviation, float* output, size_t count);

}  // namespace hostgpu::random
