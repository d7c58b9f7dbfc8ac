// Compares simulations of random graphs with a slow reference.
#include <gtest/gtest.h>

#include <string>

#include "planner/simulate/simulate.h"
#include "tests/unit/planner/simulate/random_graphs.h"
#include "tests/unit/planner/simulate/reference.h"
#include "tests/unit/planner/simulate/simulated.h"

namespace ucudnn::simulate {
namespace {

// Returns a bound on rounding errors. From the end of one task to the next end, a time is rounded a
// few times, each time by at most 2^-52 of its size.
double ToleranceMs(const Timeline& timeline) {
  return timeline.makespan_ms * static_cast<double>(timeline.tasks.size()) * 1e-15;
}

TEST(RandomGraphsTest, WholeMillisecondsComeOutExactly) {
  for (unsigned seed = 0; seed < 6'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TaskGraph graph = RandomGraphs(seed).Next({.tasks = 14, .whole_ms = true});
    ASSERT_EQ(Simulated(graph).tasks, Reference(graph).tasks);
  }
}

TEST(RandomGraphsTest, SharedResourcesAgreeUpToRounding) {
  for (unsigned seed = 0; seed < 6'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TaskGraph graph = RandomGraphs(seed).Next({.tasks = 14});
    const Timeline timeline = Simulated(graph);
    const ReferenceTimeline expected = Reference(graph);
    const double tolerance_ms = ToleranceMs(timeline);
    for (size_t i = 0; i < graph.tasks.size(); ++i) {
      ASSERT_NEAR(timeline.tasks[i].begin_ms, expected.tasks[i].begin_ms, tolerance_ms);
      ASSERT_NEAR(timeline.tasks[i].end_ms, expected.tasks[i].end_ms, tolerance_ms);
    }
  }
}

TEST(RandomGraphsTest, ExactlyGraphsThatGetStuckAreRefused) {
  int refused = 0;
  for (unsigned seed = 0; seed < 4'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TaskGraph graph =
        RandomGraphs(seed).Next({.tasks = 14, .whole_ms = true, .has_deadlocks = true});
    const Result<Timeline> timeline = Simulate(graph);
    const ReferenceTimeline expected = Reference(graph);
    ASSERT_EQ(timeline.ok(), !expected.is_deadlock) << timeline.message();
    if (timeline.ok()) {
      ASSERT_EQ(timeline->tasks, expected.tasks);
    }
    refused += timeline.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 400);
  EXPECT_LT(refused, 3'600);
}

TEST(RandomGraphsTest, TheSameGraphGivesTheSameTimeline) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const TaskGraph graph = RandomGraphs(seed).Next({.tasks = 200});
    const Timeline once = Simulated(graph);
    const Timeline again = Simulated(graph);
    EXPECT_EQ(once.tasks, again.tasks);
    EXPECT_EQ(once.critical_path, again.critical_path);
  }
}

}  // namespace
}  // namespace ucudnn::simulate
