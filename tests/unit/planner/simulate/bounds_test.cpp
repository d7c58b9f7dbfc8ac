// Tests makespans for which there is a formula, and bounds on makespans, also after a change of the
// graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "planner/simulate/simulate.h"
#include "tests/unit/planner/simulate/random_graphs.h"
#include "tests/unit/planner/simulate/simulated.h"

namespace ucudnn::simulate {
namespace {

TEST(Bounds, AChainTakesTheSumOfItsDurations) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> ms(0, 1);
  TaskGraph graph;
  const ResourceId device = graph.AddResource("device", 3);
  const QueueId stream = graph.AddQueue("stream");
  double sum_ms = 0;
  for (int i = 0; i < 1'000; ++i) {
    Task task = {.duration_ms = ms(random)};
    if (i % 3 != 0) task.resource = device;
    if (i % 2 == 0) task.queue = stream;
    if (i > 0) task.after = {i - 1};
    sum_ms += task.duration_ms;
    graph.Add(task);
  }
  const Timeline timeline = Simulated(graph);
  EXPECT_EQ(timeline.makespan_ms, sum_ms);  // equal, because the order of the sum is the same
  EXPECT_EQ(timeline.critical_path.size(), graph.tasks.size());
}

TEST(Bounds, IndependentEqualTasksTakeTheirWorkOrTheirDuration) {
  for (const int tasks : {1, 2, 3, 4, 5, 8, 64, 1'000}) {
    TaskGraph graph;
    const ResourceId device = graph.AddResource("device");
    for (int i = 0; i < tasks; ++i)
      graph.Add({.duration_ms = 8, .resource = device, .share = 0.25});
    EXPECT_EQ(Simulated(graph).makespan_ms, std::max(8.0, 2.0 * tasks)) << tasks << " tasks";
  }
}

TEST(Bounds, EqualPartsOfADeviceNeverOverfillIt) {
  for (int parts = 1; parts <= 300; ++parts) {
    TaskGraph graph;
    const ResourceId device = graph.AddResource("device");
    for (int i = 0; i < parts; ++i) {
      graph.Add({.duration_ms = 0.3, .resource = device, .share = 1.0 / parts});
    }
    EXPECT_EQ(Simulated(graph).makespan_ms, 0.3) << parts << " parts";
  }
}

TEST(Bounds, AWholeDeviceTakesTheSumOfIndependentTasksHoweverItIsShared) {
  std::mt19937 random(2);
  for (const int slots : {1, 2, 4, 1'000}) {
    TaskGraph graph;
    const ResourceId device = graph.AddResource("device", slots);
    double sum_ms = 0;
    for (int i = 0; i < 200; ++i) {
      graph.Add({.duration_ms = 1.0 + static_cast<double>(random() % 50), .resource = device});
      sum_ms += graph.tasks.back().duration_ms;
    }
    // The tolerance is for rounding: each of 200 ends is computed by a division and a sum.
    EXPECT_NEAR(Simulated(graph).makespan_ms, sum_ms, sum_ms * 200 * 3e-16) << slots << " slots";
  }
}

TEST(Bounds, APipelineOfEqualStagesTakesOneStageForEachStageAndItem) {
  for (const int stages : {1, 2, 3, 7}) {
    for (const int items : {1, 2, 5, 20}) {
      TaskGraph graph;
      for (int stage = 0; stage < stages; ++stage) graph.AddResource("stage", 1);
      for (int item = 0; item < items; ++item) {
        for (int stage = 0; stage < stages; ++stage) {
          Task task = {.duration_ms = 3, .resource = stage};
          if (stage > 0) task.after = {item * stages + stage - 1};
          graph.Add(task);
        }
      }
      EXPECT_EQ(Simulated(graph).makespan_ms, 3 * (stages + items - 1));
    }
  }
}

TEST(Bounds, APipelineIsAsFastAsItsSlowestStage) {
  const std::vector<double> stages_ms = {2, 5, 1, 4};
  constexpr int kItems = 12;
  TaskGraph graph;
  std::vector<QueueId> stages;
  for (size_t i = 0; i < stages_ms.size(); ++i) stages.push_back(graph.AddQueue("stage"));
  for (int item = 0; item < kItems; ++item) {
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      Task task = {.duration_ms = stages_ms[stage], .queue = stages[stage]};
      if (stage > 0) task.after = {static_cast<TaskId>(graph.tasks.size()) - 1};
      graph.Add(task);
    }
  }
  EXPECT_EQ(Simulated(graph).makespan_ms, (2 + 5 + 1 + 4) + (kItems - 1) * 5);
}

TEST(Bounds, ForkAndJoinTakeAsManyRoundsAsSlotsNeed) {
  for (const int slots : {1, 2, 3, 8}) {
    for (const int tasks : {1, 3, 8, 17}) {
      TaskGraph graph;
      const ResourceId device = graph.AddResource("device", slots);
      const TaskId fork = graph.Add({.duration_ms = 1});
      Task join = {.duration_ms = 2};
      for (int i = 0; i < tasks; ++i) {
        join.after.push_back(graph.Add(
            {.duration_ms = 4, .resource = device, .share = 1.0 / slots, .after = {fork}}));
      }
      graph.Add(join);
      const int rounds = (tasks + slots - 1) / slots;
      EXPECT_EQ(Simulated(graph).makespan_ms, 1 + 4 * rounds + 2);
    }
  }
}

TEST(Bounds, NoMakespanIsBelowOrAboveWhatChainsAndWorkAllow) {
  for (unsigned seed = 0; seed < 3'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraphs graphs(seed);
    const TaskGraph graph = graphs.Next({.tasks = 30});
    const Timeline timeline = Simulated(graph);
    const double chain_ms = LongestChainMs(graph);
    double most_ms = chain_ms;
    double work_ms = 0;
    for (size_t i = 0; i < graph.resources.size(); ++i) {
      double sum_ms = 0;
      double shares_ms = 0;
      for (const Task& task : graph.tasks) {
        if (task.resource != static_cast<ResourceId>(i)) continue;
        sum_ms += task.duration_ms;
        shares_ms += task.duration_ms * task.share;
      }
      const double rounds_ms = sum_ms / graph.resources[i].slots;
      work_ms = std::max({work_ms, shares_ms, rounds_ms});
      most_ms += shares_ms + rounds_ms;
    }
    // The tolerance is for shares, which are rounded to multiples of 2^-32.
    EXPECT_GE(timeline.makespan_ms, std::max(chain_ms, work_ms) * (1 - 1e-8));
    // At any time, at least one of these is true for the next task of some chain: it runs at full
    // speed (chain_ms), its resource works at full speed (shares_ms), or all slots of its resource
    // run tasks at full speed (rounds_ms). So the sum of these times, over all resources, is a
    // bound.
    EXPECT_LE(timeline.makespan_ms, most_ms * (1 + 1e-8));
  }
}

TEST(Bounds, TheCriticalPathHasNoGap) {
  for (unsigned seed = 0; seed < 2'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const TaskGraph graph = RandomGraphs(seed).Next({.tasks = 20, .whole_ms = seed % 2 == 0});
    ExpectPathExplains(graph, Simulated(graph));
  }
}

// Without resources, the makespan is the length of the longest path.
TEST(Bounds, WithoutContentionALongerTaskDelaysByNoMoreThanItself) {
  for (unsigned seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TaskGraph graph = RandomGraphs(seed).Next({.tasks = 20, .resources = 0, .whole_ms = true});
    const double before_ms = Simulated(graph).makespan_ms;
    EXPECT_EQ(before_ms, LongestChainMs(graph));
    graph.tasks[seed % graph.tasks.size()].duration_ms += 3;
    const double after_ms = Simulated(graph).makespan_ms;
    EXPECT_GE(after_ms, before_ms);
    EXPECT_LE(after_ms, before_ms + 3);
  }
}

TEST(Bounds, WithoutContentionAnotherDependencyShortensNothing) {
  for (unsigned seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TaskGraph graph = RandomGraphs(seed).Next({.tasks = 20, .resources = 0, .whole_ms = true});
    const std::vector<Span> before = Simulated(graph).tasks;
    const TaskId last = static_cast<TaskId>(graph.tasks.size()) - 1;
    graph.tasks.back().after.push_back(static_cast<TaskId>(seed) % last);
    const std::vector<Span> after = Simulated(graph).tasks;
    for (size_t i = 0; i < before.size(); ++i) EXPECT_GE(after[i].end_ms, before[i].end_ms);
  }
}

TEST(Bounds, OnASharedDeviceALongerIndependentTaskEndsNoOtherEarlier) {
  for (unsigned seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    TaskGraph graph;
    const ResourceId device = graph.AddResource("device");
    for (int i = 0; i < 10; ++i) {
      graph.Add({.duration_ms = static_cast<double>(random() % 20),
                 .resource = device,
                 .share = static_cast<double>(random() % 9) / 8});
    }
    const std::vector<Span> before = Simulated(graph).tasks;
    graph.tasks[random() % 10].duration_ms += 2;
    const std::vector<Span> after = Simulated(graph).tasks;
    for (size_t i = 0; i < before.size(); ++i) {
      // The tolerance is for rounding: each of ten ends, of at most 100 ms, is rounded a few times.
      EXPECT_GE(after[i].end_ms, before[i].end_ms - 1e-12);
    }
  }
}

}  // namespace
}  // namespace ucudnn::simulate
