// Tests the solver on chains without rounding (ring_chain.h). The solution is a fixed point of
// cycles, relaxation makes blocks exact after a known number of cycles, and each layer is computed
// a known number of times.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/must.h"
#include "unit/planner/multigrid/drawn_net.h"
#include "unit/planner/multigrid/ring_chain.h"

namespace ucudnn::multigrid {
namespace {

using Source = LayerSystem::Source;

struct RingResult {
  std::vector<RingChain::Numbers> states;
  Solution solution;
};
RingResult SolveRing(const DrawnSolve& drawn, uint64_t seed, int cycles) {
  RingSolve solve(drawn.hierarchy, seed, drawn.setting.storage, drawn.setting.lanes);
  SolveOptions options = drawn.options;
  options.cycles = cycles;
  const Solution solved = test::Must(solve.Solve(options));
  return {solve.States(), solved};
}

DrawnSolve Two(int steps, int coarsening, int sweeps) {
  DrawnSolve made = {.hierarchy = *Hierarchy::Make(steps, {coarsening}, 2),
                     .setting = {.coarsening = {coarsening}}};
  made.options.c_sweeps = {sweeps};
  made.options.measures_cycles = false;
  return made;
}

TEST(ExactSolve, TheSolutionIsAFixedPointOfEveryCycle) {
  std::mt19937_64 random(1);
  for (uint64_t draw = 0; draw < 500; ++draw) {
    DrawnSolve drawn = DrawSolve(random, 60);
    drawn.options.start = Start::kPrevious;
    SCOPED_TRACE("draw " + std::to_string(draw) + ": " + drawn.Text());
    RingSolve solve(drawn.hierarchy, draw, drawn.setting.storage, drawn.setting.lanes);
    ASSERT_TRUE(solve.system.SolveSerially(0, Source::kNone).ok());
    const auto serial = solve.Serial();
    ASSERT_EQ(solve.States(), serial);
    drawn.options.cycles = DrawNumber(random, 1, 3);
    ASSERT_TRUE(solve.Solve(drawn.options).ok());
    ASSERT_EQ(solve.States(), serial);
    ASSERT_EQ(solve.Last(), serial.back());
  }
}

// With N layers in blocks of c, F is exact after N/c cycles, FCF after N/2c, and FCFCF after N/3c.
TEST(ExactSolve, RelaxationIsExactAfterAsManyCyclesAsItHasBlocksToPass) {
  for (const int sweeps : {0, 1, 2}) {
    for (const int coarsening : {2, 3, 4}) {
      for (const int blocks : {2, 3, 6, 7}) {
        for (const int rest : {0, coarsening - 1}) {
          const int steps = blocks * coarsening + rest;
          const DrawnSolve drawn = Two(steps, coarsening, sweeps);
          SCOPED_TRACE(drawn.Text());
          const int cycles = (blocks + sweeps) / (sweeps + 1);
          EXPECT_EQ(CyclesOfDirectSolve(drawn.hierarchy.level(0), drawn.options), cycles);
          const auto serial = RingSolve(drawn.hierarchy, 7, drawn.setting.storage, 1).Serial();
          const RingResult exact = SolveRing(drawn, 7, cycles);
          EXPECT_EQ(exact.states, serial);
          EXPECT_EQ(exact.solution.outcome, Outcome::kDirect);
          if (cycles == 1) continue;
          const RingResult early = SolveRing(drawn, 7, cycles - 1);
          EXPECT_NE(early.states, serial);
          EXPECT_EQ(early.solution.outcome, Outcome::kEarly);
        }
      }
    }
  }
}

// Tests random options, numbers of levels and cycles, and both starts.
TEST(ExactSolve, DirectMeansExactAndIsSaidAsSoonAsItIs) {
  std::mt19937_64 random(2);
  for (uint64_t draw = 0; draw < 200; ++draw) {
    DrawnSolve drawn = DrawSolve(random, 40);
    if (DrawNumber(random, 0, 1) == 0) drawn.options.start = Start::kNested;
    SCOPED_TRACE("draw " + std::to_string(draw) + ": " + drawn.Text());
    const auto serial = RingSolve(drawn.hierarchy, draw, drawn.setting.storage, 1).Serial();
    const int blocks = drawn.hierarchy.level(0).blocks();
    int exact_before = 0;
    for (int cycles = 1; cycles <= blocks + 1; ++cycles) {
      const RingResult result = SolveRing(drawn, draw, cycles);
      const bool is_exact = result.states == serial;
      if (result.solution.outcome == Outcome::kDirect) {
        ASSERT_TRUE(is_exact) << "after " << cycles << " cycles";
        break;
      }
      ASSERT_EQ(result.solution.outcome, Outcome::kEarly);
      ASSERT_LE(cycles, blocks);
      if (is_exact) ++exact_before;
    }
    // The outcome is kDirect after a certain number of cycles with relaxation. A first cycle that
    // skips its relaxation does not count. It nevertheless makes a block exact if F-points are
    // computed from their C-points (`follows`). Then a solve may be exact one cycle before its
    // outcome is kDirect.
    const bool follows =
        drawn.options.start == Start::kNested || drawn.setting.storage == Storage::kCPoints;
    ASSERT_LE(exact_before, drawn.options.skips_first_down && follows ? 1 : 0);
  }
}

TEST(ExactSolve, AnUnmeasuredDirectSolveMeasuresItsLastResidual) {
  const RingResult direct = SolveRing(Two(16, 2, 1), 7, 4);
  ASSERT_EQ(direct.solution.residuals.size(), 5U);
  for (int cycle = 0; cycle < 4; ++cycle) EXPECT_TRUE(std::isnan(direct.solution.residuals[cycle]));
  EXPECT_EQ(direct.solution.residuals[4], 0);
  EXPECT_EQ(SolveRing(Two(16, 2, 1), 7, 3).solution.residuals.size(), 1U);
}

TEST(ExactSolve, OneLevelIsSerialPropagation) {
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    for (const int steps : {2, 3, 17}) {
      RingSolve solve(*Hierarchy::Make(steps, {4}, 1), 5, storage, 3);
      const Solution solved = test::Must(solve.Solve({}));
      EXPECT_EQ(solved.outcome, Outcome::kSerial);
      EXPECT_EQ(solved.fallback, "");
      EXPECT_EQ(solved.cycles, 0);
      EXPECT_TRUE(solved.residuals.empty());
      EXPECT_EQ(solve.States(), solve.Serial());
      EXPECT_EQ(solve.Last(), solve.States().back());
      EXPECT_EQ(solve.chain.stepped(0), steps);
    }
  }
}

TEST(ExactSolve, ASystemHasAsManyStatesAsItSaysInAdvance) {
  std::mt19937_64 random(4);
  for (uint64_t draw = 0; draw < 200; ++draw) {
    const DrawnSolve drawn = DrawSolve(random, 200);
    SCOPED_TRACE(drawn.Text());
    RingSolve solve(drawn.hierarchy, draw, drawn.setting.storage, drawn.setting.lanes);
    const int64_t made = solve.chain.created();
    EXPECT_EQ(made,
              BlockSystem::StatesFor(drawn.hierarchy, drawn.setting.lanes, drawn.setting.storage));
    ASSERT_TRUE(solve.Solve(drawn.options).ok());
    EXPECT_EQ(solve.chain.created(), made);
  }
}

// Adds to `steps`, by level, the steps that a cycle needs on level `number` and on coarser levels.
// If `is_relaxed`, the cycle begins with relaxed F-points.
void AddCycle(const DrawnSolve& drawn, int number, bool is_relaxed, std::vector<int64_t>& steps) {
  const Level& level = drawn.hierarchy.level(number);
  if (number == drawn.hierarchy.coarsest()) {
    steps[number] += level.steps;
    return;
  }
  const auto& each = drawn.options.c_sweeps;
  const int sweeps = each[std::min<size_t>(number, each.size() - 1)];
  const int64_t f_points = level.steps - level.blocks();
  if (!is_relaxed) steps[number] += f_points;
  steps[number] += sweeps * int64_t{level.steps} + level.blocks();
  steps[number + 1] += level.blocks();  // the steps that compute right-hand sides
  AddCycle(drawn, number + 1, false, steps);
  steps[number] += f_points;
}

std::vector<int64_t> PredictedSteps(const DrawnSolve& drawn, int cycles) {
  std::vector<int64_t> steps(drawn.hierarchy.levels());
  for (int i = 0; i < cycles; ++i) AddCycle(drawn, 0, i > 0, steps);
  return steps;
}

std::vector<int64_t> CountedSteps(const DrawnSolve& drawn, int cycles) {
  RingSolve solve(drawn.hierarchy, 1, drawn.setting.storage, drawn.setting.lanes);
  SolveOptions options = drawn.options;
  options.cycles = cycles;
  // The options measure no residual, which would need one more step in each block.
  EXPECT_TRUE(solve.Solve(options).ok());
  std::vector<int64_t> counted;
  for (int level = 0; level < drawn.hierarchy.levels(); ++level) {
    counted.push_back(solve.chain.stepped(level));
  }
  return counted;
}

TEST(ExactSolve, ACycleStepsThroughEachLayerAsOftenAsItMust) {
  std::mt19937_64 random(5);
  int counted = 0;
  for (int draw = 0; draw < 100; ++draw) {
    DrawnSolve drawn = DrawSolve(random, 200);
    drawn.setting.storage = Storage::kAll;
    drawn.options.skips_first_down = false;
    const int cycles = 3;
    if (CyclesOfDirectSolve(drawn.hierarchy.level(0), drawn.options) <= cycles) continue;
    SCOPED_TRACE(drawn.Text());
    ASSERT_EQ(CountedSteps(drawn, cycles), PredictedSteps(drawn, cycles));
    ++counted;
  }
  EXPECT_GT(counted, 20);
}

// With F on two levels, a cycle computes each fine layer once and each coarse layer twice.
TEST(ExactSolve, ATwoLevelCycleOfFStepsOnceThroughTheNet) {
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    DrawnSolve drawn = Two(128, 8, 0);
    drawn.setting.storage = storage;
    const std::vector<int64_t> three = CountedSteps(drawn, 3);
    const std::vector<int64_t> four = CountedSteps(drawn, 4);
    EXPECT_EQ(four[0] - three[0], 128);
    EXPECT_EQ(four[1] - three[1], 2 * 16);
  }
}

TEST(ExactSolve, MeasuringEachCycleCostsAStepOfABlockAtTheEndAlone) {
  DrawnSolve drawn = Two(128, 8, 1);
  const int64_t unmeasured = CountedSteps(drawn, 3)[0];
  drawn.options.measures_cycles = true;
  EXPECT_EQ(CountedSteps(drawn, 3)[0], unmeasured + 16);
}

}  // namespace
}  // namespace ucudnn::multigrid
