// Chains over the integers modulo a prime. A solve only computes steps and sums of states with
// factors that are multiples of 1/4. Modulo a prime, steps and sums are exact, so states can be
// compared for equality. Steps are nonlinear, and the steps of coarse levels are unrelated to the
// layers that they approximate.
#pragma once

#include <cstdint>

#include "unit/planner/multigrid/vector_chain.h"

namespace ucudnn::multigrid {

struct RingNumber {
  static constexpr uint64_t kPrime = 2147483647;  // 2^31 - 1: products of two numbers fit 64 bits

  bool operator==(const RingNumber&) const = default;

  uint64_t value = kPrime - 1;
};

// REQUIRES: `a` and `b` are multiples of 1/4.
RingNumber Combined(double b, RingNumber to, double a, RingNumber x);
// Returns 1 if the numbers differ, else 0. So the squared distance of two states is the number of
// elements in which they differ.
inline double SquaredDifference(RingNumber x, RingNumber y) { return x == y ? 0 : 1; }

// A chain whose steps are pseudo-random functions, which `seed` determines.
class RingChain : public VectorChain<RingNumber> {
 public:
  explicit RingChain(uint64_t seed);
};

struct RingSolve : VectorSolve<RingNumber> {
  RingSolve(const Hierarchy& levels, uint64_t seed, Storage storage, int lane_count);
};

}  // namespace ucudnn::multigrid
