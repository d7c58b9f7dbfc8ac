// A sequence of random numbers in which each is found by its place, so that it does not matter in
// how many calls it is drawn. Not one of cuRAND's sequences. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hostgpu::random {

// Draws begin at the place `first` of the sequence of `seed`.
struct Place {
  uint64_t seed = 0;
  uint64_t first = 0;
};

// In (0, 1].
void Uniform(Place place, float* output, size_t count);

// `count` is even: numbers come in pairs, of two draws.
void Normal(Place place, float mean, float deviation, float* output, size_t count);

}  // namespace hostgpu::random
