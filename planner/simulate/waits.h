// Which task waits for which, in the form that a simulation walks. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "planner/simulate/task_graph.h"

namespace ucudnn::simulate {

inline size_t Position(int id) { return static_cast<size_t>(id); }

struct Waits {
  // First position of each task in `dependents`, and the end of the list.
  std::vector<size_t> first;
  std::vector<TaskId> dependents;  // waiting tasks, by the task that they name in `after`
  std::vector<TaskId> ahead;       // preceding task in the same queue, or kNone
  std::vector<TaskId> behind;      // next task in the same queue, or kNone
  std::vector<int> missing;        // number of tasks for which each task waits
};

// Fails if a resource or task has an impossible value, or an id does not exist; the error names it.
Status Check(const TaskGraph& graph);

// REQUIRES: Check(graph) is ok.
Waits WaitsOf(const TaskGraph& graph);

// Says which tasks wait for each other. REQUIRES: some task has not `ended`, and each such task
// waits for another.
Status Deadlock(const TaskGraph& graph, const Waits& waits, const std::vector<char>& ended);

}  // namespace ucudnn::simulate
