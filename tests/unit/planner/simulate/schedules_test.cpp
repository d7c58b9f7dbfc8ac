// Tests schedules that were worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "planner/simulate/simulate.h"
#include "tests/unit/planner/simulate/simulated.h"

namespace ucudnn::simulate {
namespace {

using ::testing::ElementsAre;

TEST(Schedules, NothingTakesNoTime) {
  const Timeline timeline = Simulated({});
  EXPECT_EQ(timeline.makespan_ms, 0);
  EXPECT_TRUE(timeline.tasks.empty());
  EXPECT_TRUE(timeline.critical_path.empty());
}

TEST(Schedules, AStreamRunsOneTaskAfterTheOtherOnAnIdleDevice) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device");
  const QueueId stream = graph.AddQueue("stream");
  for (const double ms : {2, 3, 4}) {
    graph.Add({.duration_ms = ms, .resource = device, .share = 0.1, .queue = stream});
  }
  EXPECT_THAT(Simulated(graph).tasks, ElementsAre(Span{0, 2}, Span{2, 5}, Span{5, 9}));
}

TEST(Schedules, AStreamWaitsAtATaskThatWaitsForAnotherStream) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device");
  const QueueId first = graph.AddQueue("first");
  const QueueId second = graph.AddQueue("second");
  const TaskId a = graph.Add({.duration_ms = 5, .resource = device, .share = 0.5, .queue = first});
  graph.Add({.duration_ms = 1, .resource = device, .share = 0.5, .queue = second});
  graph.Add({.duration_ms = 1, .resource = device, .share = 0.5, .queue = second, .after = {a}});
  graph.Add({.duration_ms = 1, .resource = device, .share = 0.5, .queue = second});
  EXPECT_THAT(Simulated(graph).tasks, ElementsAre(Span{0, 5}, Span{0, 1}, Span{5, 6}, Span{6, 7}));
}

TEST(Schedules, ADependencyMayNameATaskThatIsAddedLater) {
  TaskGraph graph;
  graph.Add({.duration_ms = 1, .after = {1, 2, 1}});
  graph.Add({.duration_ms = 2});
  graph.Add({.duration_ms = 3});
  EXPECT_THAT(Simulated(graph).tasks, ElementsAre(Span{3, 4}, Span{0, 2}, Span{0, 3}));
}

TEST(Schedules, TasksThatUnderfillADeviceRunTogetherAtFullSpeed) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device");
  for (int i = 0; i < 10; ++i) graph.Add({.duration_ms = 3, .resource = device, .share = 0.1});
  for (int i = 0; i < 3; ++i) graph.Add({.duration_ms = 3, .resource = device, .share = 0});
  EXPECT_THAT(Simulated(graph).tasks, ::testing::Each(Span{0, 3}));
}

TEST(Schedules, TasksThatOverfillADeviceShareIt) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device");
  const TaskId delay = graph.Add({.duration_ms = 2});
  // This task is alone until 2 ms, then at half speed with 2 of its 4 ms left.
  graph.Add({.duration_ms = 4, .resource = device});
  // This task is at half speed until 6 ms, then alone with 2 of its 4 ms left.
  graph.Add({.duration_ms = 4, .resource = device, .after = {delay}});
  EXPECT_THAT(Simulated(graph).tasks, ElementsAre(Span{0, 2}, Span{0, 6}, Span{2, 8}));
}

TEST(Schedules, TheSumOfSharesIsHowMuchSlowerTasksAre) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device");
  // All tasks run at 2/3 of their speed until 6 ms. Then 2 of the 6 ms of the last one are left,
  // and it runs alone.
  graph.Add({.duration_ms = 4, .resource = device, .share = 0.75});
  graph.Add({.duration_ms = 4, .resource = device, .share = 0.25});
  graph.Add({.duration_ms = 6, .resource = device, .share = 0.5});
  EXPECT_THAT(Simulated(graph).tasks, ElementsAre(Span{0, 6}, Span{0, 6}, Span{0, 8}));
}

TEST(Schedules, ADeviceIsAtFullSpeedAgainAfterItWasOverfilled) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device");
  const QueueId stream = graph.AddQueue("stream");
  graph.Add({.duration_ms = 1, .resource = device, .queue = stream});
  graph.Add({.duration_ms = 1, .resource = device});  // overfills the device until 2 ms
  graph.Add({.duration_ms = 3, .resource = device, .queue = stream});
  graph.Add({.duration_ms = 4, .queue = stream});  // meanwhile the device is idle
  graph.Add({.duration_ms = 5, .resource = device, .queue = stream});
  EXPECT_THAT(Simulated(graph).tasks,
              ElementsAre(Span{0, 2}, Span{0, 2}, Span{2, 5}, Span{5, 9}, Span{9, 14}));
}

TEST(Schedules, SlotsLimitHowManyTasksRunAtOnce) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device", 2);
  for (const double ms : {2, 5, 1, 1, 1}) {
    graph.Add({.duration_ms = ms, .resource = device, .share = 0.5});
  }
  EXPECT_THAT(Simulated(graph).tasks,
              ElementsAre(Span{0, 2}, Span{0, 5}, Span{2, 3}, Span{3, 4}, Span{4, 5}));
}

TEST(Schedules, ASlotGoesToTheTaskThatWasReadyFirstAndThenToTheSmallestId) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device", 1);
  const TaskId late = graph.Add({.duration_ms = 2});
  const TaskId early = graph.Add({.duration_ms = 1});
  const TaskId join = graph.Add({.after = {early}});  // has no duration, and so delays nothing
  graph.Add({.duration_ms = 4, .resource = device});  // ready at 0: runs first
  graph.Add({.duration_ms = 4, .resource = device, .after = {late}});  // ready at 2: runs last
  graph.Add({.duration_ms = 4, .resource = device, .after = {join}});  // ready at 1, like the next
  graph.Add({.duration_ms = 4, .resource = device, .after = {early}});
  const std::vector<Span> tasks = Simulated(graph).tasks;
  EXPECT_EQ(tasks[3], (Span{0, 4}));
  EXPECT_EQ(tasks[5], (Span{4, 8}));
  EXPECT_EQ(tasks[6], (Span{8, 12}));
  EXPECT_EQ(tasks[4], (Span{12, 16}));
}

TEST(Schedules, AJoinThatHasNothingToWaitForDelaysNothing) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device", 1);
  graph.Add({.duration_ms = 2, .resource = device, .after = {2}});
  graph.Add({.duration_ms = 1, .resource = device});
  graph.Add({.name = "begin"});
  EXPECT_THAT(Simulated(graph).tasks, ElementsAre(Span{0, 2}, Span{2, 3}, Span{0, 0}));
}

TEST(Schedules, ATaskOfNoDurationStillWaitsForItsSlot) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device", 1);
  graph.Add({.duration_ms = 3, .resource = device});
  graph.Add({.resource = device});
  graph.Add({.duration_ms = 1, .resource = device});
  EXPECT_THAT(Simulated(graph).tasks, ElementsAre(Span{0, 3}, Span{3, 3}, Span{3, 4}));
}

// R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", 1969: nine tasks on three processors
// need 12 ms. They need 13 ms if each task is 1 ms shorter, and 15 ms on four processors.
double GrahamMakespan(int processors, double shorter) {
  TaskGraph graph;
  const ResourceId machine = graph.AddResource("processors", processors);
  const double durations[] = {3, 2, 2, 2, 4, 4, 4, 4, 9};
  for (const double ms : durations) {
    graph.Add({.duration_ms = ms - shorter, .resource = machine, .share = 0.25});
  }
  for (const TaskId behind : {4, 5, 6, 7}) graph.tasks[static_cast<size_t>(behind)].after = {3};
  graph.tasks[8].after = {0};
  return Simulated(graph).makespan_ms;
}

TEST(Schedules, GrahamsAnomaliesComeOutAsPrinted) {
  EXPECT_EQ(GrahamMakespan(3, 0), 12);
  EXPECT_EQ(GrahamMakespan(3, 1), 13);
  EXPECT_EQ(GrahamMakespan(4, 0), 15);
}

TEST(Schedules, ALinkSendsOneMessageAfterTheOtherInOneDirection) {
  TaskGraph graph;
  const Link there = {graph.AddResource("link", 1), 2, 0};  // 2e6 bytes a ms
  const Link back = {graph.AddResource("link, back", 1), 2, 0};
  graph.Send(there, 6e6, {});
  graph.Send(there, 2e6, {});
  graph.Send(back, 4e6, {});
  EXPECT_THAT(Simulated(graph).tasks, ElementsAre(Span{0, 3}, Span{3, 4}, Span{0, 2}));
}

TEST(Schedules, LatencyDelaysTheReceiverAndNotTheNextMessage) {
  TaskGraph graph;
  const Link link = {graph.AddResource("link", 1), 1, 250};  // latency 250 us = 0.25 ms
  const TaskId first = graph.Send(link, 1e6, {});
  const TaskId second = graph.Send(link, 2e6, {});
  graph.Add({.duration_ms = 1, .after = {first}});
  graph.Add({.duration_ms = 1, .after = {second}});
  EXPECT_THAT(Simulated(graph).tasks,
              ElementsAre(Span{0, 1}, Span{1, 1.25}, Span{1, 3}, Span{3, 3.25}, Span{1.25, 2.25},
                          Span{3.25, 4.25}));
}

TEST(Schedules, TheCriticalPathLeadsThroughSlotsDependenciesAndQueues) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device", 1);
  const QueueId stream = graph.AddQueue("stream");
  const TaskId first = graph.Add({.duration_ms = 3, .resource = device});  // 0 to 3
  const TaskId slot = graph.Add({.duration_ms = 2, .resource = device});   // 3 to 5
  const TaskId after =
      graph.Add({.duration_ms = 1, .queue = stream, .after = {first, slot}});  // 5 to 6
  const TaskId behind = graph.Add({.duration_ms = 4, .queue = stream});        // 6 to 10
  graph.Add({.duration_ms = 9});
  EXPECT_THAT(Simulated(graph).critical_path, ElementsAre(first, slot, after, behind));
}

TEST(Schedules, OfDependenciesThatEndTogetherTheCriticalPathTakesTheSmallestId) {
  TaskGraph graph;
  graph.Add({.duration_ms = 1});
  graph.Add({.duration_ms = 2});
  graph.Add({.duration_ms = 2});
  graph.Add({.duration_ms = 1, .after = {0, 2, 1}});
  EXPECT_THAT(Simulated(graph).critical_path, ElementsAre(1, 3));
}

TEST(Schedules, TheCriticalPathLeadsThroughTasksOfNoDuration) {
  TaskGraph graph;
  graph.Add({.name = "begin"});
  graph.Add({.duration_ms = 2, .after = {0}});
  graph.Add({.duration_ms = 1, .after = {0}});
  graph.Add({.name = "join", .after = {1, 2}});
  graph.Add({.duration_ms = 1, .after = {3}});
  EXPECT_THAT(Simulated(graph).critical_path, ElementsAre(0, 1, 3, 4));
}

}  // namespace
}  // namespace ucudnn::simulate
