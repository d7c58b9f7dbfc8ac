// Tests schedules that were worked out by hand. Comments give the times of each task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
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
  // All tasks run at 2/3 of their speed until 6 ms, then the last runs alone with 2 of its 6 ms
  // left.
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
  graph.Add({.duration_ms = 1, .resource = device});  // both until 2 ms
  graph.Add({.duration_ms = 3, .resource = device, .queue = stream});
  graph.Add({.duration_ms = 4, .queue = stream});  // the device is idle
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
  const TaskId join = graph.Add({.after = {early}});  // takes no time, and delays no task behind it
  graph.Add({.duration_ms = 4, .resource = device});  // begins immediately: 0 to 4
  graph.Add({.duration_ms = 4, .resource = device, .after = {late}});  // ready at 2: runs last
  graph.Add({.duration_ms = 4, .resource = device, .after = {join}});  // ready at 1, smaller id
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
// take 12 ms. They take 13 ms if each task is 1 ms shorter, and 15 ms on four processors.
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
  const auto [there, back] = graph.AddLink("link", 2, 0, Duplex::kFull);  // 2e6 bytes a ms
  graph.Send(there, {.bytes = 6e6});
  graph.Send(there, {.bytes = 2e6});
  graph.Send(back, {.bytes = 4e6});
  EXPECT_THAT(Simulated(graph).tasks, ElementsAre(Span{0, 3}, Span{3, 4}, Span{0, 2}));
}

TEST(Schedules, DirectionsOfAHalfDuplexLinkWaitForEachOther) {
  TaskGraph graph;
  const auto [there, back] = graph.AddLink("link", 2, 0, Duplex::kHalf);
  graph.Send(there, {.bytes = 6e6});
  graph.Send(back, {.bytes = 4e6});
  graph.Send(there, {.bytes = 2e6});
  EXPECT_THAT(Simulated(graph).tasks, ElementsAre(Span{0, 3}, Span{3, 5}, Span{5, 6}));
}

TEST(Schedules, LatencyDelaysTheReceiverAndNotTheNextMessage) {
  TaskGraph graph;
  const Link link = graph.AddLink("link", 1, 250, Duplex::kFull)[0];  // latency 250 us = 0.25 ms
  const QueueId sender = graph.AddQueue("sender");
  const TaskId first = graph.Send(link, {.name = "first", .bytes = 1e6, .queue = sender});
  const TaskId second = graph.Send(link, {.name = "second", .bytes = 2e6, .queue = sender});
  const TaskId behind = graph.Add({.duration_ms = 1, .queue = sender});
  const std::vector<Span> tasks = Simulated(graph).tasks;
  EXPECT_EQ(tasks[static_cast<size_t>(first)].end_ms, 1.25);
  EXPECT_EQ(tasks[static_cast<size_t>(second)].end_ms, 3.25);
  EXPECT_EQ(tasks[static_cast<size_t>(behind)], (Span{3, 4}));
  EXPECT_EQ(graph.tasks[static_cast<size_t>(first)].name, "latency of first");
}

TEST(Schedules, AMessageHoldsTheStreamsOfSenderAndReceiver) {
  TaskGraph graph;
  const ResourceId devices[] = {graph.AddResource("gpu 0"), graph.AddResource("gpu 1")};
  const QueueId streams[] = {graph.AddQueue("stream of gpu 0"), graph.AddQueue("stream of gpu 1")};
  const Link link = graph.AddLink("link", 1, 0, Duplex::kFull)[0];
  graph.Add({.duration_ms = 2, .resource = devices[0], .queue = streams[0]});
  const TaskId receiver =
      graph.Add({.duration_ms = 5, .resource = devices[1], .queue = streams[1]});
  const TaskId message = graph.Send(link, {.bytes = 3e6, .queue = streams[0], .after = {receiver}});
  graph.Add({.duration_ms = 1, .resource = devices[0], .queue = streams[0]});
  graph.Add({.duration_ms = 1, .resource = devices[1], .queue = streams[1], .after = {message}});
  EXPECT_THAT(Simulated(graph).tasks,
              ElementsAre(Span{0, 2}, Span{0, 5}, Span{5, 8}, Span{8, 9}, Span{8, 9}));
}

// Launches four blocks of five kernels each, on one stream for each block. All blocks together fill
// the device.
enum class Launching { kOneThread, kThreadPerBlock, kCaptured };

Timeline LaunchedBlocks(Launching launching, double launch_ms, double kernel_ms) {
  constexpr int kBlocks = 4;
  constexpr int kKernels = 5;
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device");
  std::vector<HostThread> threads;
  std::vector<QueueId> streams;
  for (int block = 0; block < kBlocks; ++block) {
    threads.push_back(graph.AddHostThread("thread", launch_ms));
    streams.push_back(graph.AddQueue("stream"));
  }
  if (launching == Launching::kCaptured) graph.Launch(threads[0], {.name = "graph"});
  for (int kernel = 0; kernel < kKernels; ++kernel) {
    for (size_t block = 0; block < kBlocks; ++block) {
      Task task = {.duration_ms = kernel_ms,
                   .resource = device,
                   .share = 1.0 / kBlocks,
                   .queue = streams[block]};
      if (launching == Launching::kCaptured) {
        task.after = {1};
        graph.Add(task);
      } else {
        graph.Launch(threads[launching == Launching::kOneThread ? 0 : block], task);
      }
    }
  }
  return Simulated(graph);
}

TEST(Schedules, AThreadPerBlockLaunchesFasterThanOneThread) {
  // Kernels are shorter than launches, so the makespan is the time of 20 launches (5 if each block
  // has a thread of its own) and of the last kernel.
  EXPECT_EQ(LaunchedBlocks(Launching::kOneThread, 2, 1).makespan_ms, 20 * 2 + 1);
  EXPECT_EQ(LaunchedBlocks(Launching::kThreadPerBlock, 2, 1).makespan_ms, 5 * 2 + 1);
  EXPECT_EQ(LaunchedBlocks(Launching::kCaptured, 2, 1).makespan_ms, 2 + 5 * 1);
  // Kernels hide launches, so the makespan is the time of one launch and five kernels. If one
  // thread launches all blocks, the last block's first kernel waits for four launches.
  EXPECT_EQ(LaunchedBlocks(Launching::kOneThread, 2, 8).makespan_ms, 4 * 2 + 5 * 8);
  EXPECT_EQ(LaunchedBlocks(Launching::kThreadPerBlock, 2, 8).makespan_ms, 2 + 5 * 8);
  EXPECT_EQ(LaunchedBlocks(Launching::kCaptured, 2, 8).makespan_ms, 2 + 5 * 8);
}

TEST(Schedules, ConcurrencyFollowsFromHowKernelsAreLaunched) {
  const Timeline one = LaunchedBlocks(Launching::kOneThread, 2, 1);
  EXPECT_EQ(one.resources[0].most_at_once, 1);
  EXPECT_EQ(one.resources[0].busy_ms, 20);
  EXPECT_EQ(one.resources[0].AtOnce(), 1);
  const Timeline captured = LaunchedBlocks(Launching::kCaptured, 2, 1);
  EXPECT_EQ(captured.resources[0].most_at_once, 4);
  EXPECT_EQ(captured.resources[0].busy_ms, 5);
  EXPECT_EQ(captured.resources[0].AtOnce(), 4);
  EXPECT_EQ(captured.resources[0].work_ms, 5);
  EXPECT_EQ(captured.resources[0].tasks, 20);
}

TEST(Schedules, UseOfAResourceIsMeasuredWhileItIsBusy) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device");
  graph.AddResource("never used");
  const TaskId delay = graph.Add({.duration_ms = 10});
  graph.Add({.duration_ms = 3, .resource = device, .share = 0.5});
  graph.Add({.duration_ms = 1, .resource = device, .share = 0.25});
  graph.Add({.duration_ms = 4, .resource = device, .after = {delay}});
  graph.Add({.resource = device});  // takes no time
  const Timeline timeline = Simulated(graph);
  EXPECT_EQ(timeline.makespan_ms, 14);
  const ResourceUse& use = timeline.resources[0];
  EXPECT_EQ(use.tasks, 4);
  EXPECT_EQ(use.busy_ms, 3 + 4);
  EXPECT_EQ(use.task_ms, 3 + 1 + 4);
  EXPECT_EQ(use.work_ms, 3 * 0.5 + 1 * 0.25 + 4);
  EXPECT_EQ(use.most_at_once, 2);
  EXPECT_EQ(use.AtOnce(), 8.0 / 7);
  EXPECT_EQ(timeline.resources[1].tasks, 0);
  EXPECT_EQ(timeline.resources[1].AtOnce(), 0);
}

TEST(Schedules, ActivitiesAreTimedTogetherAloneAndOnTheCriticalPath) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device");
  const HostThread thread = graph.AddHostThread("thread", 1);
  const Link link = graph.AddLink("link", 1, 500, Duplex::kFull)[0];
  const TaskId first = graph.Launch(thread, {.duration_ms = 4, .resource = device});  // 1 to 5
  graph.Launch(thread, {.duration_ms = 6, .resource = device, .after = {first}});     // 5 to 11
  const TaskId arrived = graph.Send(link, {.bytes = 8e6, .after = {first}});  // 5 to 13, 13.5
  graph.Add({.duration_ms = 2, .resource = device, .after = {arrived}});      // 13.5 to 15.5
  const Timeline timeline = Simulated(graph);
  EXPECT_EQ(timeline.makespan_ms, 15.5);
  EXPECT_EQ(UseOf(timeline, Activity::kLaunch), (ActivityUse{2, 1, 1}));
  EXPECT_EQ(UseOf(timeline, Activity::kComputation), (ActivityUse{12, 3 + 2, 4 + 2}));
  EXPECT_EQ(UseOf(timeline, Activity::kCommunication), (ActivityUse{8.5, 2.5, 8.5}));
}

TEST(Schedules, TheCriticalPathSaysWhatHeldUpEachOfItsTasks) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device", 1);
  const QueueId stream = graph.AddQueue("stream");
  const TaskId first = graph.Add({.duration_ms = 3, .resource = device});  // 0 to 3
  const TaskId slot = graph.Add({.duration_ms = 2, .resource = device});   // 3 to 5
  const TaskId after =
      graph.Add({.duration_ms = 1, .queue = stream, .after = {first, slot}});  // 5 to 6
  const TaskId behind = graph.Add({.duration_ms = 4, .queue = stream});        // 6 to 10
  graph.Add({.duration_ms = 9});
  EXPECT_THAT(Simulated(graph).critical_path,
              ElementsAre(PathTask{first, HeldBy::kNothing}, PathTask{slot, HeldBy::kSlot},
                          PathTask{after, HeldBy::kDependency}, PathTask{behind, HeldBy::kQueue}));
}

TEST(Schedules, OfDependenciesThatEndTogetherTheCriticalPathTakesTheSmallestId) {
  TaskGraph graph;
  graph.Add({.duration_ms = 1});
  graph.Add({.duration_ms = 2});
  graph.Add({.duration_ms = 2});
  graph.Add({.duration_ms = 1, .after = {0, 2, 1}});
  EXPECT_THAT(Simulated(graph).critical_path,
              ElementsAre(PathTask{1, HeldBy::kNothing}, PathTask{3, HeldBy::kDependency}));
}

TEST(Schedules, TheCriticalPathLeadsThroughTasksOfNoDuration) {
  TaskGraph graph;
  graph.Add({.name = "begin"});
  graph.Add({.duration_ms = 2, .after = {0}});
  graph.Add({.duration_ms = 1, .after = {0}});
  graph.Add({.name = "join", .after = {1, 2}});
  graph.Add({.duration_ms = 1, .after = {3}});
  EXPECT_THAT(Simulated(graph).critical_path,
              ElementsAre(PathTask{0, HeldBy::kNothing}, PathTask{1, HeldBy::kDependency},
                          PathTask{3, HeldBy::kDependency}, PathTask{4, HeldBy::kDependency}));
}

}  // namespace
}  // namespace ucudnn::simulate
