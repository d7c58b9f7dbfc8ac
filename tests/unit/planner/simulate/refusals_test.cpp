// Tests graphs that cannot be simulated, and the messages about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "planner/simulate/simulate.h"

namespace ucudnn::simulate {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const TaskGraph& graph) {
  const Result<Timeline> timeline = Simulate(graph);
  return timeline.ok() ? "none" : timeline.message();
}

std::string RefusalOf(const Task& task) {
  TaskGraph graph;
  graph.AddResource("device");
  graph.AddResource("link", 1);
  graph.Add({.name = "first"});
  graph.Add(task);
  return Refusal(graph);
}

TEST(Refusals, DurationsThatAreNoTimesAreRefused) {
  EXPECT_EQ(RefusalOf({.name = "relax", .duration_ms = -0.5}),
            "task 1 (relax): duration in ms -0.5, expected a finite number of at least 0");
  EXPECT_EQ(RefusalOf({.duration_ms = std::numeric_limits<double>::infinity()}),
            "task 1: duration in ms inf, expected a finite number of at least 0");
  EXPECT_THAT(RefusalOf({.duration_ms = std::numeric_limits<double>::quiet_NaN()}),
              HasSubstr("task 1: duration in ms nan"));
}

TEST(Refusals, DurationsWhoseSumIsNoTimeAreRefused) {
  TaskGraph graph;
  for (int i = 0; i < 3; ++i) graph.Add({.duration_ms = 1e308});
  EXPECT_EQ(Refusal(graph), "all tasks together: duration in ms inf, expected at most 1e300");
}

TEST(Refusals, SharesOutsideAResourceAreRefused) {
  EXPECT_EQ(RefusalOf({.share = 1.5}), "task 1: share 1.5, expected 0 to 1");
  EXPECT_EQ(RefusalOf({.share = -0.1}), "task 1: share -0.1, expected 0 to 1");
  EXPECT_THAT(RefusalOf({.share = std::numeric_limits<double>::quiet_NaN()}), HasSubstr("share"));
}

TEST(Refusals, IdsThatAreNotThereAreRefused) {
  EXPECT_EQ(RefusalOf({.resource = 2}), "task 1: resource 2, expected a resource of 0 to 1");
  EXPECT_EQ(RefusalOf({.resource = -2}), "task 1: resource -2, expected a resource of 0 to 1");
  EXPECT_EQ(RefusalOf({.queue = 0}), "task 1: queue 0, expected none: there are no queues");
  EXPECT_EQ(RefusalOf({.after = {0, 7}}), "task 1: waits for task 7, expected a task of 0 to 1");
  EXPECT_EQ(RefusalOf({.after = {kNone}}), "task 1: waits for task -1, expected a task of 0 to 1");
}

TEST(Refusals, AResourceWithoutSlotsIsRefused) {
  TaskGraph graph;
  graph.AddResource("device", 0);
  EXPECT_EQ(Refusal(graph), "resource 0 (device): slots 0, expected at least 1");
}

TEST(Refusals, ALinkWithoutBandwidthIsRefusedOnceItIsUsed) {
  TaskGraph graph;
  const Link link = {graph.AddResource("link", 1), 0, 1};
  EXPECT_EQ(Refusal(graph), "none");
  graph.Send(link, 8, {});
  EXPECT_THAT(Refusal(graph), HasSubstr("task 0: duration in ms inf"));
}

TEST(Refusals, ATaskThatWaitsForItselfIsRefused) {
  TaskGraph graph;
  graph.Add({.name = "relax", .after = {0}});
  EXPECT_EQ(Refusal(graph), "dependencies form a cycle: task 0 (relax) waits for task 0 (relax)");
}

TEST(Refusals, TasksThatWaitForEachOtherAreRefused) {
  TaskGraph graph;
  graph.Add({.name = "before", .duration_ms = 1});
  graph.Add({.name = "a", .after = {0, 3}});
  graph.Add({.name = "behind", .after = {1}});
  graph.Add({.name = "b", .after = {4}});
  graph.Add({.name = "c", .after = {1}});
  EXPECT_EQ(Refusal(graph),
            "dependencies form a cycle: task 1 (a) waits for task 3 (b), which waits for task 4 "
            "(c), which waits for task 1 (a)");
}

TEST(Refusals, AQueueInWhichATaskStandsBehindOneThatWaitsForItIsRefused) {
  TaskGraph graph;
  const QueueId compute = graph.AddQueue("compute");
  const QueueId copies = graph.AddQueue("copies");
  graph.Add({.name = "wait", .queue = compute, .after = {3}});
  graph.Add({.name = "relax", .queue = compute});
  graph.Add({.name = "send", .queue = copies, .after = {1}});
  graph.Add({.name = "receive", .queue = copies});
  EXPECT_EQ(Refusal(graph),
            "the order of queues contradicts dependencies: task 0 (wait) waits for task 3 "
            "(receive), which stands in queue 1 (copies) behind task 2 (send), which waits for "
            "task 1 (relax), which stands in queue 0 (compute) behind task 0 (wait)");
}

TEST(Refusals, OfALongCycleTheBeginningIsTold) {
  TaskGraph graph;
  for (int i = 0; i < 1'000; ++i) graph.Add({.after = {(i + 1) % 1'000}});
  EXPECT_EQ(Refusal(graph),
            "dependencies form a cycle: task 0 waits for task 1, which waits for task 2, which "
            "waits for task 3, which waits for task 4, which waits for task 5, which waits for "
            "task 6, which waits for task 7, which waits for task 8, and so on back to task 0: "
            "1000 tasks in all");
}

}  // namespace
}  // namespace ucudnn::simulate
