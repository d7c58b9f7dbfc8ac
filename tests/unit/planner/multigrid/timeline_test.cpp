// Tests timelines of cycles: which steps run on which lane, and in which order.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "planner/multigrid/timed_propagator.h"
#include "unit/planner/multigrid/ring_chain.h"

namespace ucudnn::multigrid {
namespace {

// Solves a RingChain and records its timeline.
struct TimedSolve {
  explicit TimedSolve(int lane_count)
      : hierarchy(*Hierarchy::Make(35, {4}, 3)),
        lanes(std::move(*Lanes::Start(lane_count))),
        timed(chain, hierarchy, lane_count) {
    const State first = *chain.Create();
    for (RingNumber& number : RingChain::Of(first)) number = {1};
    system.emplace(std::move(*BlockSystem::Make(timed, hierarchy, lanes, Storage::kAll, first)));
  }

  // Solves and records the timeline. As in solves on the host, `options.watch` ends the timeline of
  // each cycle.
  void Solve(int cycles) {
    SolveOptions options = {.cycles = cycles};
    options.watch = [&](int, double) {
      stepped.push_back({chain.stepped(0), chain.stepped(1), chain.stepped(2)});
      chain.ForgetSteps();
      EXPECT_TRUE(timed.EndCycle().ok());
    };
    chain.ForgetSteps();
    timed.Begin();
    ASSERT_TRUE(multigrid::Solve(*system, hierarchy, options).ok());
  }

  Hierarchy hierarchy;
  Lanes lanes;
  RingChain chain{1};
  TimedPropagator timed;
  std::optional<BlockSystem> system;
  std::vector<std::vector<int64_t>> stepped;  // number of steps, by cycle and level
};

TEST(Timeline, HasEveryStepOfACycleOnce) {
  for (const int lanes : {1, 3}) {
    for (const int cycles : {1, 2, 4}) {
      SCOPED_TRACE(std::to_string(lanes) + " lanes, " + std::to_string(cycles) + " cycles");
      TimedSolve solve(lanes);
      solve.Solve(cycles);
      const CycleTimeline timeline = solve.timed.Timeline();
      EXPECT_EQ(timeline.cycle, std::min(cycles, 2));
      EXPECT_EQ(timeline.lanes, lanes);
      std::vector<int64_t> steps(3, 0);
      for (const StepSpan& span : timeline.spans) steps[span.level] += span.steps;
      EXPECT_EQ(steps, solve.stepped[timeline.cycle - 1]);
    }
  }
}

TEST(Timeline, SpansOfALaneFollowEachOther) {
  TimedSolve solve(3);
  solve.Solve(2);
  const CycleTimeline timeline = solve.timed.Timeline();
  std::map<int, double> free_from;
  double first = 1;
  for (const StepSpan& span : timeline.spans) {
    EXPECT_GE(span.begin_ms, free_from[span.lane]);
    EXPECT_LE(span.begin_ms, span.end_ms);
    free_from[span.lane] = span.end_ms;
    first = std::min(first, span.begin_ms);
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(free_from.size(), 3u);
  EXPECT_GT(timeline.MeanConcurrency(), 0);
  EXPECT_LE(timeline.MeanConcurrency(), 3);
}

// The timeline shows the second cycle, which relaxes the F-points of the finest level twice. This
// level has 9 blocks. The last block has only 3 steps, and no C-point at its end.
TEST(Timeline, ABlocksFPointsAreOneSpan) {
  TimedSolve solve(2);
  solve.Solve(2);
  std::map<std::pair<int, int>, int> times;  // number of spans, by first step and number of steps
  for (const StepSpan& span : solve.timed.Timeline().spans) {
    if (span.level == 0) ++times[{span.first, span.steps}];
  }
  std::map<std::pair<int, int>, int> expected;
  for (int block = 0; block < 8; ++block) {
    // The F-relaxation with which the first cycle ends is also the first F-relaxation of the second
    // cycle. So the second cycle's timeline does not show it.
    expected[{4 * block, 3}] = 2;
    expected[{4 * block + 3, 1}] = 2;
  }
  expected[{32, 3}] = 2;
  EXPECT_EQ(times, expected);
}

TEST(Timeline, TheCoarsestLevelIsSolvedInOneSpan) {
  TimedSolve solve(1);
  solve.Solve(2);
  std::vector<std::pair<int, int>> coarsest;
  for (const StepSpan& span : solve.timed.Timeline().spans) {
    if (span.level == 2) coarsest.emplace_back(span.first, span.steps);
  }
  // One of the spans computes the right-hand sides, and the other solves the level.
  EXPECT_EQ(coarsest, (std::vector<std::pair<int, int>>{{0, 2}, {0, 2}}));
}

TEST(Timeline, BeginsAgainWithEachSolve) {
  TimedSolve solve(1);
  solve.Solve(2);
  solve.Solve(1);
  EXPECT_EQ(solve.timed.Timeline().cycle, 1);
  solve.timed.Begin();
  EXPECT_EQ(solve.timed.Timeline().cycle, 0);
  EXPECT_TRUE(solve.timed.Timeline().spans.empty());
  EXPECT_EQ(solve.timed.Timeline().MeanConcurrency(), 0);
}

}  // namespace
}  // namespace ucudnn::multigrid
