// Finds the critical path: a chain of tasks that together determine when a timeline ends. A pure
// function.
#pragma once

#include <vector>

#include "planner/simulate/simulate.h"
#include "planner/simulate/waits.h"

namespace ucudnn::simulate {

// For each task, `slot_from` has the earlier task whose slot the task got, or kNone if a slot was
// free. REQUIRES: `tasks` are the spans of all tasks of the graph.
std::vector<TaskId> CriticalPath(const TaskGraph& graph, const Waits& waits,
                                 const std::vector<Span>& tasks,
                                 const std::vector<TaskId>& slot_from);

}  // namespace ucudnn::simulate
