// The dependencies and queues of a task graph, as lists by task. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "planner/simulate/task_graph.h"

namespace ucudnn::simulate {

inline size_t Position(int id) { return static_cast<size_t>(id); }

struct Waits {
  // The dependents of task i are at first[i] to first[i + 1] - 1 of `dependents`.
  std::vector<size_t> first;
  std::vector<TaskId> dependents;  // tasks that wait, sorted by the task that they name in `after`
  std::vector<TaskId> ahead;       // preceding task in the same queue, or kNone
  std::vector<TaskId> behind;      // next task in the same queue, or kNone
  std::vector<int> missing;        // by task: number of tasks for which it waits at the start
};

// Fails if a resource or task has an impossible value, or an id does not exist; the error names it.
Status Check(const TaskGraph& graph);

// REQUIRES: Check(graph) is ok.
Waits WaitsOf(const TaskGraph& graph);

// Returns an error that names tasks that wait for each other. REQUIRES: some task has not ended,
// and each such task waits for another.
Status Deadlock(const TaskGraph& graph, const Waits& waits, const std::vector<char>& ended);

}  // namespace ucudnn::simulate
