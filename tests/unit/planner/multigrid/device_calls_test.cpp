// Tests what a cycle on a device costs the host: a known number of library calls, and no
// allocation. The device is a NullDevice, which does nothing, so only the solver can allocate.
#include <gtest/gtest.h>

#include "support/device.h"
#include "support/null_device.h"
#include "tests/bench/allocation_count.h"
#include "unit/planner/multigrid/device_stage.h"

namespace ucudnn::multigrid {
namespace {

constexpr int kLanes = 3;

class DeviceCalls : public test::DeviceTest {
 protected:
  // A NullDevice computes nothing: downloads return what was uploaded last. The test uploads only
  // zeros, with which no residual ends a solve.
  DeviceCalls() {
    chain.parameters = ZerosLike(chain.parameters);
    chain.first.assign(chain.first.size(), 0);
  }
  StageSolver& Solver(const WayAndLaunch& run, CoarseOperator coarse = CoarseOperator::kInject,
                      int coarsening = 4) {
    stage.emplace(
        DeviceTarget{&device.driver, &device.functions, context}, chain,
        SolveSetting{.coarsening = {coarsening}, .levels = 2, .coarse = coarse, .h = 1.0 / 64}, run,
        kLanes);
    EXPECT_TRUE(stage->solver->LoadWeights().ok());
    return *stage->solver;
  }
  // REQUIRES: relaxation alone is not exact after `cycles`. Otherwise the solve would measure its
  // residual.
  static SolveOptions Cycles(int cycles, bool measures) {
    return {.start = Start::kPrevious, .cycles = cycles, .measures_cycles = measures};
  }
  // Solves twice, so that later solves reuse what was allocated and recorded. The first solve does
  // not record its first cycle, which differs from the others; the second solve records it.
  void Warm(StageSolver& solver, bool measures) {
    for (int solve = 0; solve < 2; ++solve) Solve(solver, 4, measures);
  }
  void Solve(StageSolver& solver, int cycles, bool measures) {
    EXPECT_TRUE(
        solver.SolveForward(chain.first.data(), Cycles(cycles, measures), last.data()).ok());
  }
  void SolveBackward(StageSolver& solver, int cycles) {
    EXPECT_TRUE(solver.SolveBackward(chain.first.data(), Cycles(cycles, true), last.data()).ok());
  }
  template <typename Work>
  static long AllocationsOf(const Work& work) {
    const long before = bench::Allocations();
    EXPECT_GT(before, 0) << "allocations are not counted";
    work();
    return bench::Allocations() - before;
  }
  // Returns the number of NullCalls in one cycle: the difference in calls between a long and a
  // short solve, divided by the difference in cycles.
  long CallsOfACycle(StageSolver& solver) {
    constexpr int kFew = 3;
    constexpr int kMany = 7;
    Warm(solver, false);
    long calls[2];
    for (const int cycles : {kFew, kMany}) {
      const long before = test::NullCalls();
      Solve(solver, cycles, false);
      calls[cycles == kMany ? 1 : 0] = test::NullCalls() - before;
    }
    EXPECT_EQ((calls[1] - calls[0]) % (kMany - kFew), 0);
    return (calls[1] - calls[0]) / (kMany - kFew);
  }

  test::NullDevice device = test::MakeNullDevice();
  std::mt19937_64 random{1};
  WeightedChain chain = DrawnChain({.steps = 64, .extent = 4}, random, 0.5);
  std::optional<DeviceStage> stage;
  std::vector<double> last = std::vector<double>(chain.first.size());
};

TEST_F(DeviceCalls, ACycleAllocatesNothing) {
  for (const WayAndLaunch& run : kWaysAndLaunches) {
    for (const CoarseOperator coarse : {CoarseOperator::kInject, CoarseOperator::kSum}) {
      SCOPED_TRACE(run.Name() + ", " + NameOf(coarse));
      StageSolver& solver = Solver(run, coarse);
      Warm(solver, true);
      EXPECT_EQ(AllocationsOf([&] { Solve(solver, 7, true); }),
                AllocationsOf([&] { Solve(solver, 3, true); }));
      for (int solve = 0; solve < 2; ++solve) SolveBackward(solver, 4);
      Warm(solver, true);  // now with the adjoint's memory
      EXPECT_EQ(AllocationsOf([&] { SolveBackward(solver, 7); }),
                AllocationsOf([&] { SolveBackward(solver, 3); }));
      EXPECT_EQ(AllocationsOf([&] { Solve(solver, 7, true); }),
                AllocationsOf([&] { Solve(solver, 3, true); }));
    }
  }
}

// The chain has 16 blocks of 4 layers or 32 blocks of 2, and one coarse layer for each block. A
// step has two calls: a convolution with bias and relu, and a sum.
TEST_F(DeviceCalls, ACycleSideBySideIsSoManyCalls) {
  constexpr int kStep = 2;
  constexpr int kCRelaxation = kStep + 1;          // a step and a copy
  constexpr int kRestriction = kStep + kStep + 2;  // Advance, coarse step; copy, difference
  constexpr int kCorrection = 1;
  for (const int coarsening : {2, 4}) {
    const int relaxation = (coarsening - 1) * kStep;   // all but one point of each block
    const int coarse = 64 / coarsening * (kStep + 1);  // each step adds its right side
    EXPECT_EQ(CallsOfACycle(Solver({Way::kGrouped}, CoarseOperator::kInject, coarsening)),
              kCRelaxation + relaxation + kRestriction + coarse + kCorrection + relaxation);
  }
}

// A coarse step with kInject has two calls: a convolution and a sum. With kSum it has three calls
// for all its 4 layers: a convolution, a copy and a reduction. A cycle has 16 coarse steps in its
// coarse solve and 16 in the restriction. With kGrouped, the 16 of the restriction run as one.
TEST_F(DeviceCalls, ACoarseSumIsOneConvolutionOfAllItsLayers) {
  for (const auto& [way, restricted] :
       {std::pair(Way::kStreams, 16), std::pair(Way::kGrouped, 1)}) {
    const long layers = CallsOfACycle(Solver({way}));
    const long sums = CallsOfACycle(Solver({way}, CoarseOperator::kSum));
    EXPECT_EQ(sums - layers, restricted + 16) << NameOf(way);
  }
}

TEST_F(DeviceCalls, ARecordedCycleIsOneLaunch) {
  EXPECT_EQ(CallsOfACycle(Solver({Way::kGrouped, Launch::kGraph})), 1);
  // In addition to the launch, a cycle records an event, and each of the other streams waits for
  // it.
  StageSolver& solver = Solver({Way::kStreams, Launch::kGraph});
  EXPECT_EQ(CallsOfACycle(solver), 1 + 1 + (kLanes - 1));
  const long before = test::NullGraphLaunches();
  Solve(solver, 5, false);
  EXPECT_EQ(test::NullGraphLaunches() - before, 5);
}

}  // namespace
}  // namespace ucudnn::multigrid
