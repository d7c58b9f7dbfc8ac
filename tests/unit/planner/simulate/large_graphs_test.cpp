// Simulates graphs of a million tasks. Recursion over tasks would exhaust the stack, and an
// algorithm slower than n log n would exceed the test's timeout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "planner/simulate/simulate.h"
#include "tests/unit/planner/simulate/random_graphs.h"
#include "tests/unit/planner/simulate/simulated.h"

namespace ucudnn::simulate {
namespace {

constexpr int kMillion = 1'000'000;

TEST(LargeGraphs, AMillionTasksOnDevicesAndStreams) {
  constexpr int kDevices = 64;
  constexpr int kStreams = 16;  // on each device
  std::mt19937 random(1);
  std::uniform_real_distribution<double> ms(0.5, 1.5);
  TaskGraph graph;
  for (int i = 0; i < kDevices; ++i) graph.AddResource("gpu", i % 2 == 0 ? 8 : 128);
  for (int i = 0; i < kDevices * kStreams; ++i) graph.AddQueue("stream");
  for (int i = 0; i < kMillion; ++i) {
    const int queue = i % (kDevices * kStreams);
    Task task = {
        .duration_ms = ms(random), .resource = queue / kStreams, .share = 0.125, .queue = queue};
    if (i >= kDevices * kStreams) task.after = {i - 1, i - 17};
    graph.Add(task);
  }
  const Timeline timeline = Simulated(graph);
  ExpectPathExplains(graph, timeline);
  std::vector<double> work_ms(kDevices);
  for (const Task& task : graph.tasks) work_ms[task.resource] += task.duration_ms * task.share;
  for (const double ms : work_ms) EXPECT_GE(timeline.makespan_ms, ms * (1 - 1e-8));
}

TEST(LargeGraphs, AMillionTasksThatShareADeviceAllAtOnce) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device");
  double sum_ms = 0;
  for (int i = 0; i < kMillion; ++i) {
    graph.Add({.duration_ms = static_cast<double>(i % 1'000), .resource = device});
    sum_ms += graph.tasks.back().duration_ms;
  }
  // The tolerance is for rounding: each of 1,000 ends is rounded a few times.
  EXPECT_NEAR(Simulated(graph).makespan_ms, sum_ms, sum_ms * 1'000 * 1e-15);
}

TEST(LargeGraphs, AChainOfAMillionTasksOfNoDuration) {
  TaskGraph graph;
  graph.Add({});
  for (int i = 1; i < kMillion; ++i) graph.Add({.after = {i - 1}});
  const Timeline timeline = Simulated(graph);
  EXPECT_EQ(timeline.makespan_ms, 0);
  EXPECT_EQ(timeline.critical_path.size(), size_t{1});
}

TEST(LargeGraphs, ATaskThatAMillionWaitFor) {
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device", 1);
  graph.Add({.duration_ms = 1});
  for (int i = 1; i < kMillion; ++i) {
    graph.Add({.duration_ms = 1, .resource = device, .after = {0}});
  }
  const Timeline timeline = Simulated(graph);
  EXPECT_EQ(timeline.makespan_ms, kMillion);
  EXPECT_EQ(timeline.critical_path.size(), size_t{kMillion});
}

TEST(LargeGraphs, ACycleOfAMillionTasksIsRefused) {
  TaskGraph graph;
  for (int i = 0; i < kMillion; ++i) graph.Add({.after = {(i + 1) % kMillion}});
  const Result<Timeline> timeline = Simulate(graph);
  ASSERT_FALSE(timeline.ok());
  EXPECT_THAT(timeline.message(), ::testing::EndsWith("1000000 tasks in all"));
}

}  // namespace
}  // namespace ucudnn::simulate
