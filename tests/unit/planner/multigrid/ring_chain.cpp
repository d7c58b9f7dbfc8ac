#include "unit/planner/multigrid/ring_chain.h"

#include <cmath>

#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {
namespace {

constexpr uint64_t kPrime = 2147483647;  // 2^31 - 1, so products of two numbers fit 64 bits
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
  for (size_t i = 0; i < kWidth; ++i) first.push_back(Mixed(seed + i) % kPrime);
  return first;
}

BlockSystem MakeSystem(RingChain& chain, const Hierarchy& hierarchy, Lanes& lanes, Storage storage,
                       uint64_t seed) {
  RingChain::Numbers first = First(seed);
  return std::move(*BlockSystem::Make(chain, hierarchy, lanes, storage, &first));
}

}  // namespace

Result<State> RingChain::Create() {
  states_.push_back(std::make_unique<Numbers>(kWidth, kPrime - 1));
  return State{states_.back().get()};
}

void RingChain::Apply(int level, int step, const Numbers& from, Numbers& to) const {
  const uint64_t seed = Mixed(seed_ + static_cast<uint64_t>(level) * 1000003 + step);
  for (size_t i = 0; i < kWidth; ++i) {
    const uint64_t linear = Mixed(seed + 3 * i) % kPrime;
    const uint64_t square = Mixed(seed + 3 * i + 1) % kPrime;
    const uint64_t bias = Mixed(seed + 3 * i + 2) % kPrime;
    const uint64_t neighbour = from[(i + 1) % kWidth];
    to[i] = (from[i] + linear * neighbour % kPrime + from[i] * from[i] % kPrime * square % kPrime +
             bias) %
            kPrime;
  }
}

Status RingChain::Step(int level, int step, State from, State to, int) {
  ++stepped_[level];
  if (from == to) return Status::Error("a step into the state that it reads");
  Apply(level, step, Of(from), Of(to));
  return Status::Ok();
}

Status RingChain::Combine(State to, double b, double a, State x, int) {
  for (size_t i = 0; i < kWidth; ++i) {
    const uint64_t kept = b == 0 ? 0 : InRing(b) * Of(to)[i] % kPrime;
    const uint64_t added = a == 0 ? 0 : InRing(a) * Of(x)[i] % kPrime;
    Of(to)[i] = (kept + added) % kPrime;
  }
  return Status::Ok();
}

Status RingChain::SquaredDistance(State x, State y, double* result, int) {
  *result = 0;
  for (size_t i = 0; i < kWidth; ++i) {
    if (Of(x)[i] != (y == nullptr ? 0 : Of(y)[i])) ++*result;
  }
  return Status::Ok();
}

std::vector<RingChain::Numbers> RingChain::Serial(int steps) {
  std::vector<Numbers> states = {First(seed_)};
  for (int step = 0; step < steps; ++step) {
    Numbers next(kWidth);
    Apply(0, step, states.back(), next);
    states.push_back(next);
  }
  return states;
}

RingSolve::RingSolve(const Hierarchy& levels, uint64_t seed, Storage storage, int lane_count)
    : hierarchy(levels),
      chain(seed),
      lanes(std::move(*Lanes::Start(lane_count))),
      system(MakeSystem(chain, hierarchy, lanes, storage, seed)) {}

std::vector<RingChain::Numbers> RingSolve::States() {
  Trajectory states = std::move(*Trajectory::Make(system, hierarchy, chain, 1));
  std::vector<RingChain::Numbers> all;
  for (int number = 0; number <= hierarchy.level(0).steps; ++number) {
    all.push_back(RingChain::Of(*states.At(number, 0)));
  }
  return all;
}

}  // namespace ucudnn::multigrid
