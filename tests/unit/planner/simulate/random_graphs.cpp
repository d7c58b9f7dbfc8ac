#include "tests/unit/planner/simulate/random_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ucudnn::simulate {

TaskGraph RandomGraphs::Next(const GraphShape& shape) {
  TaskGraph graph;
  AddResources(shape, graph);
  const int queues = Draw(0, 3);
  for (int i = 0; i < queues; ++i) graph.AddQueue("queue");
  const int tasks = Draw(2, shape.tasks);
  for (int i = 0; i < tasks; ++i) {
    Task task = {.duration_ms = DurationMs(shape)};
    task.resource = Draw(-1, static_cast<int>(graph.resources.size()) - 1);
    if (task.resource != kNone) {
      task.share = Share(shape, graph.resources[static_cast<size_t>(task.resource)]);
    }
    if (Draw(0, 1) == 0) task.queue = Draw(-1, queues - 1);
    for (int count = Draw(0, 2); count > 0 && i > 0; --count) task.after.push_back(Draw(0, i - 1));
    if (shape.has_deadlocks && Draw(0, tasks) == 0) task.after.push_back(Draw(0, tasks - 1));
    graph.Add(task);
  }
  return graph;
}

void RandomGraphs::AddResources(const GraphShape& shape, TaskGraph& graph) {
  const int resources = Draw(std::min(1, shape.resources), shape.resources);
  for (int i = 0; i < resources; ++i) {
    if (!shape.whole_ms && Draw(0, 2) == 0) {
      graph.AddResource("unlimited");
    } else {
      graph.AddResource("limited", Draw(1, 3));
    }
  }
}

double RandomGraphs::DurationMs(const GraphShape& shape) {
  if (Draw(0, 5) == 0) return 0;
  if (shape.whole_ms) return Draw(1, 6);
  return std::uniform_real_distribution<double>(0, 6)(random_);
}

double RandomGraphs::Share(const GraphShape& shape, const Resource& resource) {
  if (shape.whole_ms) return 1.0 / resource.slots;
  return static_cast<double>(Draw(0, 16)) / 16;
}

double LongestChainMs(const TaskGraph& graph) {
  double longest_ms = 0;
  std::vector<double> ends_ms;
  std::vector<double> queues_ms(graph.queues.size(), 0);
  for (const Task& task : graph.tasks) {
    double begin_ms = 0;
    if (task.queue != kNone) begin_ms = queues_ms[static_cast<size_t>(task.queue)];
    for (const TaskId before : task.after) {
      begin_ms = std::max(begin_ms, ends_ms[static_cast<size_t>(before)]);
    }
    ends_ms.push_back(begin_ms + task.duration_ms);
    if (task.queue != kNone) queues_ms[static_cast<size_t>(task.queue)] = ends_ms.back();
    longest_ms = std::max(longest_ms, ends_ms.back());
  }
  return longest_ms;
}

void ExpectPathExplains(const TaskGraph& graph, const Timeline& timeline) {
  ASSERT_FALSE(timeline.critical_path.empty());
  double now_ms = 0;
  TaskId held_by = kNone;
  for (const TaskId id : timeline.critical_path) {
    const Task& task = graph.tasks[static_cast<size_t>(id)];
    const Span& span = timeline.tasks[static_cast<size_t>(id)];
    ASSERT_EQ(span.begin_ms, now_ms) << "task " << id;
    if (held_by != kNone) {
      const Task& before = graph.tasks[static_cast<size_t>(held_by)];
      EXPECT_TRUE(std::count(task.after.begin(), task.after.end(), held_by) > 0 ||
                  (task.queue != kNone && before.queue == task.queue && held_by < id) ||
                  (task.resource != kNone && before.resource == task.resource))
          << "task " << id << " behind task " << held_by;
    }
    now_ms = span.end_ms;
    held_by = id;
  }
  EXPECT_EQ(now_ms, timeline.makespan_ms);
}

}  // namespace ucudnn::simulate
