// Compares simulations with a slow reference, over random graphs.
#include <gtest/gtest.h>

#include <string>

#include "planner/simulate/simulate.h"
#include "tests/unit/planner/simulate/random_graphs.h"
#include "tests/unit/planner/simulate/reference.h"
#include "tests/unit/planner/simulate/simulated.h"

namespace ucudnn::simulate {
namespace {

// Between the ends of two successive tasks, a time is rounded a few times, each time by at most
// 2^-52 of its size.
double ToleranceMs(const Timeline& timeline) {
  return timeline.makespan_ms * static_cast<double>(timeline.tasks.size()) * 1e-15;
}

void ExpectSameUse(const TaskGraph& graph, const Timeline& timeline, double tolerance_ms) {
  for (size_t i = 0; i < graph.resources.size(); ++i) {
    const ResourceId id = static_cast<ResourceId>(i);
    const ResourceUse& use = timeline.resources[i];
    EXPECT_NEAR(use.busy_ms, ReferenceBusyMs(graph, timeline.tasks, id), tolerance_ms);
    EXPECT_EQ(use.most_at_once, ReferenceMostAtOnce(graph, timeline.tasks, id));
    int tasks = 0;
    double task_ms = 0;
    for (size_t task = 0; task < graph.tasks.size(); ++task) {
      if (graph.tasks[task].resource != id) continue;
      ++tasks;
      task_ms += timeline.tasks[task].LengthMs();
    }
    EXPECT_EQ(use.tasks, tasks);
    EXPECT_NEAR(use.task_ms, task_ms, static_cast<double>(tasks) * tolerance_ms);
  }
  double path_ms = 0;
  for (size_t i = 0; i < timeline.activities.size(); ++i) {
    const ActivityUse& use = timeline.activities[i];
    const ActivityUse expected = ReferenceActivity(graph, timeline.tasks, Activity(i));
    EXPECT_NEAR(use.busy_ms, expected.busy_ms, tolerance_ms);
    EXPECT_NEAR(use.alone_ms, expected.alone_ms, tolerance_ms);
    path_ms += use.path_ms;
  }
  EXPECT_NEAR(path_ms, timeline.makespan_ms, tolerance_ms);
}

TEST(RandomGraphsTest, WholeMillisecondsComeOutExactly) {
  for (unsigned seed = 0; seed < 6'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TaskGraph graph = RandomGraphs(seed).Next({.tasks = 14, .whole_ms = true});
    const Timeline timeline = Simulated(graph);
    ASSERT_EQ(timeline.tasks, Reference(graph).tasks);
    ExpectSameUse(graph, timeline, 0);
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
    ExpectSameUse(graph, timeline, tolerance_ms);
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
    EXPECT_EQ(once.activities, again.activities);
  }
}

}  // namespace
}  // namespace ucudnn::simulate
