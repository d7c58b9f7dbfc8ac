// Tests what hierarchies, stages and solves refuse, and with which messages.
#include <gtest/gtest.h>

#include <limits>

#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/solver.h"
#include "unit/planner/multigrid/drawn_net.h"
#include "unit/planner/multigrid/ring_chain.h"

namespace ucudnn::multigrid {
namespace {

std::string RefusalOf(int steps, const std::vector<int>& coarsening, int levels = 0) {
  const Result<Hierarchy> made = Hierarchy::Make(steps, coarsening, levels);
  return made.ok() ? "" : made.message();
}

TEST(Hierarchy, RefusesWhatHasNoTwoCoarseLayers) {
  for (const auto& [steps, levels] : {std::pair(1, 0), {0, 0}, {0, 1}, {-3, 0}}) {
    EXPECT_EQ(RefusalOf(steps, {4}, levels),
              "a chain of " + std::to_string(steps) +
                  " residual layers has nothing to solve at once; 2 and more are expected");
  }
  EXPECT_EQ(RefusalOf(16, {1}), "coarsening by 1; 2 and more are expected");
  EXPECT_EQ(RefusalOf(16, {-3}, 2), "coarsening by -3; 2 and more are expected");
  EXPECT_EQ(RefusalOf(64, {4, 0}, 3), "coarsening by 0; 2 and more are expected");
  EXPECT_EQ(RefusalOf(16, {}, 2), "no coarsening factor; 2 and more are expected");
  EXPECT_EQ(RefusalOf(16, {4}, -1), "-1 levels; 1 and more are expected");
  EXPECT_EQ(RefusalOf(16, {17}),
            "coarsening by 17 of 16 layers leaves fewer than 2; at most 8 is expected");
  EXPECT_EQ(RefusalOf(16, {17}, 2),
            "level 2 would have 0 layers (16 coarsened by 17); at least 2 are expected: fewer "
            "levels or a smaller factor");
  EXPECT_EQ(RefusalOf(16, {4}, 3),
            "level 3 would have 1 layer (4 coarsened by 4); at least 2 are expected: fewer levels "
            "or a smaller factor");
}

TEST(Hierarchy, AdvisesNoFactorWhereNoneFits) {
  for (const int steps : {2, 3}) {
    EXPECT_EQ(RefusalOf(steps, {4}), "a chain of " + std::to_string(steps) +
                                         " residual layers is too short for two levels; 4 layers "
                                         "and more, or one level, are expected");
    EXPECT_EQ(RefusalOf(steps, {4}, 1), "");
  }
}

TEST(Hierarchy, HasAsManyLevelsAsLeaveTheCoarsestBelowEightAndTwoAtLeast) {
  struct Row {
    int steps, factor, levels, coarsest;
  };
  for (const Row& row : {Row{64, 4, 3, 4}, Row{1024, 4, 5, 4}, Row{4096, 4, 6, 4}, Row{64, 8, 2, 8},
                         Row{256, 16, 2, 16}, Row{7, 2, 2, 3}, Row{8, 2, 2, 4}, Row{9, 4, 2, 2}}) {
    const Hierarchy made = *Hierarchy::Make(row.steps, {row.factor});
    EXPECT_EQ(made.levels(), row.levels) << row.steps << " by " << row.factor;
    EXPECT_EQ(made.level(made.coarsest()).steps, row.coarsest) << row.steps << " by " << row.factor;
  }
}

TEST(Hierarchy, LayersBehindTheLastCPointAreOfTheirLevelAlone) {
  const Hierarchy made = *Hierarchy::Make(47, {4, 3}, 3);
  EXPECT_EQ(made.level(0).blocks(), 11);
  EXPECT_EQ(made.level(0).last_c_point(), 44);
  EXPECT_EQ(made.level(1).steps, 11);
  EXPECT_EQ(made.level(1).span, 4);
  EXPECT_EQ(made.level(1).last_c_point(), 9);
  EXPECT_EQ(made.level(2).steps, 3);
  EXPECT_EQ(made.level(2).span, 12);
  EXPECT_EQ(made.level(2).coarsening, 1);
}

std::string RefusalOf(const SolveOptions& options) {
  const Status checked = CheckOptions(options);
  RingSolve solve(*Hierarchy::Make(16, {4}, 2), 1, Storage::kAll, 1);
  const Result<Solution> solved = solve.Solve(options);
  EXPECT_EQ(checked.ok(), solved.ok());
  if (checked.ok()) return "";
  EXPECT_EQ(checked.message(), solved.message());
  EXPECT_EQ(solve.chain.stepped(0), 0);
  return checked.message();
}

TEST(SolveOptions, AreRefusedWithTheirValueBeforeAnythingRuns) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(RefusalOf({.tolerance = 0}), "tolerance 0; a number above 0 is expected");
  EXPECT_EQ(RefusalOf({.tolerance = -1e-9}), "tolerance -1e-09; a number above 0 is expected");
  EXPECT_EQ(RefusalOf({.tolerance = kInfinity}), "tolerance inf; a number above 0 is expected");
  EXPECT_NE(RefusalOf({.tolerance = kNan}), "");
  EXPECT_EQ(RefusalOf({.c_sweeps = {}}), "no relaxation; F or FCF is expected");
  EXPECT_EQ(RefusalOf({.c_sweeps = {1, -1}}),
            "-1 sweeps of C-relaxation; 0 (F), 1 (FCF) and more are expected");
  EXPECT_EQ(RefusalOf({.cycles = 0}), "0 cycles; 1 and more are expected");
}

TEST(SolveOptions, OfOneLevelAreCheckedToo) {
  RingSolve solve(*Hierarchy::Make(16, {4}, 1), 1, Storage::kAll, 1);
  EXPECT_FALSE(solve.Solve({.cycles = 0}).ok());
}

TEST(HostStage, NamesTheNodeWhoseWeightsDoNotFit) {
  std::mt19937_64 random(1);
  const planner::Convolution square = {.filters = 2, .window = {1, 3, 3}, .pad = {0, 1, 1}};
  WeightedChain chain = ChainOf({{square}, {square}}, {}, random, 1);
  chain.step(1).weights.pop_back();
  const Result<HostStage> stage =
      HostStage::Make(chain.chain, chain.stage(), chain.parameters, 1, 1);
  EXPECT_NE(stage.message().find("step1.0"), std::string::npos) << stage.message();
  EXPECT_NE(stage.message().find("35 and 2 of bias; 36 and 2 are expected"), std::string::npos)
      << stage.message();
}

TEST(Lanes, AreOneOrMore) {
  EXPECT_EQ(Lanes::Start(0).message(), "0 lanes; 1 and more are expected");
}

// If a step fails, in any lane, the solve must fail with the step's message.
TEST(Solve, EndsWithTheErrorOfAStep) {
  class Failing : public RingChain {
   public:
    Failing() : RingChain(3) {}
    Status Step(int level, int step, State from, State to, int lane) override {
      if (level == fails_at && step == 9) return Status::Error("step 9 fails");
      return RingChain::Step(level, step, from, to, lane);
    }
    int fails_at = 0;
  };
  for (const Storage storage : {Storage::kAll, Storage::kCPoints}) {
    for (int level = 0; level < 2; ++level) {
      for (int lane_count = 1; lane_count <= 3; ++lane_count) {
        Failing chain;
        chain.fails_at = level;
        const Hierarchy hierarchy = *Hierarchy::Make(40, {4}, 2);
        Lanes lanes = std::move(*Lanes::Start(lane_count));
        RingChain::Numbers first = {{1}, {2}, {3}};
        BlockSystem system =
            std::move(*BlockSystem::Make(chain, hierarchy, lanes, storage, &first));
        EXPECT_EQ(Solve(system, hierarchy, {}).message(), "step 9 fails");
      }
    }
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
