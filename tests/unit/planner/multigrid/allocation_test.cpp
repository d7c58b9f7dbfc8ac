// A cycle allocates nothing, whatever its options: solves of few and of many cycles allocate
// equally often.
#include <gtest/gtest.h>

#include "tests/bench/allocation_count.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {
namespace {

struct Setting {
  Storage storage = Storage::kAll;
  int lanes = 1;
  CycleKind cycle = CycleKind::kV;
  CoarseOperator coarse = CoarseOperator::kInject;
};

std::string TextOf(const Setting& setting) {
  return std::string(setting.storage == Storage::kAll ? "all" : "C-points") + ", " +
         std::to_string(setting.lanes) + " lanes, " +
         (setting.cycle == CycleKind::kV ? "V, " : "F, ") + NameOf(setting.coarse);
}

std::vector<Setting> Settings() {
  std::vector<Setting> all;
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    for (const int lanes : {1, 3}) {
      for (const CycleKind cycle : {CycleKind::kV, CycleKind::kF}) {
        for (const CoarseOperator coarse :
             {CoarseOperator::kInject, CoarseOperator::kMean, CoarseOperator::kSum2}) {
          all.push_back({storage, lanes, cycle, coarse});
        }
      }
    }
  }
  return all;
}

SolveOptions Cycles(const Setting& setting, int cycles) {
  SolveOptions options;
  options.cycle = setting.cycle;
  options.start = Start::kPrevious;
  options.relaxation = {{1, 0.9}, {1, 1}};
  options.cycles = cycles;
  return options;
}

long AllocationsOf(LayerSystem& system, const Hierarchy& hierarchy, const SolveOptions& options) {
  const long before = bench::Allocations();
  const bool is_solved = Solve(system, hierarchy, options).ok();
  const long after = bench::Allocations();
  EXPECT_TRUE(is_solved);
  return after - before;
}

TEST(Allocation, ACycleAllocatesNothing) {
  std::mt19937_64 random(1);
  const WeightedChain chain = DrawnChain({.steps = 130, .extent = 4}, random, 0.5);
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(TextOf(setting));
    HostSolve forward(chain, {.levels = 3,
                              .coarse = setting.coarse,
                              .h = 1.0 / 130,
                              .storage = setting.storage,
                              .lanes = setting.lanes});
    ASSERT_TRUE(forward.system().Broadcast().ok());
    ASSERT_TRUE(forward.Solve(Cycles(setting, 4)).ok());
    const auto forward_allocations = [&](int cycles) {
      return AllocationsOf(forward.system(), forward.hierarchy(), Cycles(setting, cycles));
    };
    EXPECT_EQ(forward_allocations(9), forward_allocations(2));
  }
}

TEST(Allocation, ACycleOfTheAdjointAllocatesNothing) {
  std::mt19937_64 random(1);
  const WeightedChain chain = DrawnChain({.steps = 130, .extent = 4}, random, 0.5);
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(TextOf(setting));
    HostSolve forward(chain, {.levels = 3,
                              .coarse = setting.coarse,
                              .h = 1.0 / 130,
                              .storage = setting.storage,
                              .lanes = setting.lanes});
    ASSERT_TRUE(forward.system().SolveSerially(0, LayerSystem::Source::kNone).ok());
    Trajectory trajectory = std::move(*Trajectory::Make(forward.system(), forward.hierarchy(),
                                                        forward.propagator(), setting.lanes));
    const auto adjoint = std::move(
        *HostAdjoint::Make(forward.stage(), forward.mirrored(), setting.coarse, 1.0 / 130));
    adjoint->LineariseAt(trajectory);
    BlockSystem system = std::move(*BlockSystem::Make(*adjoint, forward.mirrored(), forward.lanes(),
                                                      setting.storage, forward.system().last()));
    ASSERT_TRUE(system.Broadcast().ok());
    ASSERT_TRUE(Solve(system, forward.mirrored(), Cycles(setting, 4)).ok());
    const auto allocations = [&](int cycles) {
      return AllocationsOf(system, forward.mirrored(), Cycles(setting, cycles));
    };
    EXPECT_EQ(allocations(9), allocations(2));
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
