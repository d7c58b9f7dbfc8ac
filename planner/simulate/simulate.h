// Runs a graph of tasks over time: computes when each task begins and ends, and which tasks held up
// the last one. A pure function. Times are modelled, never measured.
#pragma once

#include <vector>

#include "base/status.h"
#include "planner/simulate/task_graph.h"

namespace ucudnn::simulate {

struct Span {
  double begin_ms = 0;
  double end_ms = 0;  // later than begin + duration if the task's resource was overfilled

  double LengthMs() const { return end_ms - begin_ms; }
  bool operator==(const Span&) const = default;
};

struct Timeline {
  std::vector<Span> tasks;
  double makespan_ms = 0;
  // Begins with a task that begins at 0, and ends with the task that ends last (the smallest id
  // among equals). Each task begins when the preceding task of the path ends. The preceding task is
  // one of the task's `after` (the smallest id if several end at that moment), or else the task
  // ahead in its queue, or else the task that had held its slot. So the lengths of the tasks add up
  // to makespan_ms.
  std::vector<TaskId> critical_path;
};

// Runs in O((tasks + dependencies) log tasks) time. The same graph gives the same timeline, to the
// bit. If no resource is overfilled, a task ends at exactly begin + duration. An error is one line
// that names a task or resource and its fault:
// - a value that is negative, not finite or out of range;
// - an id that does not exist;
// - dependencies that form a cycle;
// - a task that stands in a queue behind a task that waits for it.
Result<Timeline> Simulate(const TaskGraph& graph);

}  // namespace ucudnn::simulate
