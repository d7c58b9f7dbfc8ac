// Makes chains over the integers modulo a prime. A solve only takes steps and adds states times
// multiples of 1/4, and modulo a prime both are exact. So states can be compared for equality.
// Steps are nonlinear, and the steps of coarse levels are unrelated to the layers that they
// approximate.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "planner/multigrid/block_system.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

class RingChain : public Propagator {
 public:
  using Numbers = std::vector<uint64_t>;

  explicit RingChain(uint64_t seed) : seed_(seed) {}

  Result<State> Create() override;
  Status Step(int level, int step, State from, State to, int lane) override;
  // REQUIRES: `a` and `b` are multiples of 1/4.
  Status Combine(State to, double b, double a, State x, int lane) override;
  // `result` is the number of elements that differ, or that differ from 0 if there is no `y`.
  Status SquaredDistance(State x, State y, double* result, int lane) override;
  double UnitRoundoff() const override { return 0x1p-53; }

  // Returns u_0..u_N, computed one layer after the other.
  std::vector<Numbers> Serial(int steps);
  static Numbers& Of(State state) { return *static_cast<Numbers*>(state); }

  int64_t created() const { return static_cast<int64_t>(states_.size()); }
  int64_t stepped(int level) const { return stepped_[level]; }
  void ForgetSteps() {
    for (auto& count : stepped_) count = 0;
  }

 private:
  static constexpr int kMostLevels = 8;

  void Apply(int level, int step, const Numbers& from, Numbers& to) const;

  uint64_t seed_;
  std::vector<std::unique_ptr<Numbers>> states_;
  std::atomic<int64_t> stepped_[kMostLevels] = {};
};

// Holds a system over a RingChain, and everything that it needs. Must not be moved.
struct RingSolve {
  // Ends the test if `levels` is no hierarchy. `seed` determines the chain.
  RingSolve(const Hierarchy& levels, uint64_t seed, Storage storage, int lane_count);

  std::vector<RingChain::Numbers> States();  // returns the states of the finest level

  Hierarchy hierarchy;
  RingChain chain;
  Lanes lanes;
  BlockSystem system;
};

}  // namespace ucudnn::multigrid
