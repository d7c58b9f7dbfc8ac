#include "unit/planner/multigrid/ring_chain.h"

#include <cmath>

namespace ucudnn::multigrid {
namespace {

constexpr uint64_t kPrime = RingNumber::kPrime;
constexpr uint64_t kQuarter = uint64_t{1} << 29;  // 4 * kQuarter = 1 modulo kPrime
static_assert(4 * kQuarter % kPrime == 1);
constexpr size_t kWidth = 3;

// Returns a number that depends on all bits of `value` (SplitMix64).
uint64_t Mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

uint64_t InRing(double multiple_of_a_quarter) {
  const auto quarters = static_cast<int64_t>(std::lround(4 * multiple_of_a_quarter));
  const int64_t prime = kPrime;
  return static_cast<uint64_t>((quarters % prime + prime) % prime) * kQuarter % kPrime;
}

RingChain::Numbers First(uint64_t seed) {
  RingChain::Numbers first;
  for (size_t i = 0; i < kWidth; ++i) first.push_back({Mixed(seed + i) % kPrime});
  return first;
}

RingChain::StepFunction Steps(uint64_t chain) {
  return [chain](int level, int step, const auto& from, auto& to) {
    const uint64_t seed = Mixed(chain + static_cast<uint64_t>(level) * 1000003 + step);
    for (size_t i = 0; i < kWidth; ++i) {
      const uint64_t linear = Mixed(seed + 3 * i) % kPrime;
      const uint64_t square = Mixed(seed + 3 * i + 1) % kPrime;
      const uint64_t bias = Mixed(seed + 3 * i + 2) % kPrime;
      const uint64_t own = from[i].value;
      const uint64_t neighbour = from[(i + 1) % kWidth].value;
      to[i].value =
          (own + linear * neighbour % kPrime + own * own % kPrime * square % kPrime + bias) %
          kPrime;
    }
  };
}

}  // namespace

RingNumber Combined(double b, RingNumber to, double a, RingNumber x) {
  return {(InRing(b) * to.value % kPrime + InRing(a) * x.value % kPrime) % kPrime};
}

RingChain::RingChain(uint64_t seed) : VectorChain(kWidth, Steps(seed)) {}

RingSolve::RingSolve(const Hierarchy& levels, uint64_t seed, Storage storage, int lane_count)
    : VectorSolve(levels, First(seed), Steps(seed), storage, lane_count) {}

}  // namespace ucudnn::multigrid
