// Which task waits for which, in the form in which a simulation walks it. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "planner/simulate/task_graph.h"

namespace ucudnn::simulate {

inline size_t Position(int id) { return static_cast<size_t>(id); }

struct Waits {
  std::vector<size_t> first;       // of each task in `dependents`, and the end of the list
  std::vector<TaskId> dependents;  // by the task that they name in `after`
  std::vector<TaskId> ahead;       // the task before, in the same queue, or kNone
  std::vector<TaskId> behind;      // the task behind, in the same queue, or kNone
  std::vector<int> missing;        // how many tasks each waits for
};

// The error names the resource or task that has an impossible value, or an id that is not there.
Status Check(const TaskGraph& graph);

// REQUIRES: Check(graph) is ok.
Waits WaitsOf(const TaskGraph& graph);

// Says which tasks wait for each other. REQUIRES: some task has not `ended`, and each such task
// waits for another.
Status Deadlock(const TaskGraph& graph, const Waits& waits, const std::vector<char>& ended);

}  // namespace ucudnn::simulate
