// Finds the timeline of a graph of tasks in the simplest way: advances the time to the next end of
// a task, and then examines every task. This is slow, but uses only the definitions of resources,
// queues and dependencies.
#pragma once

#include <vector>

#include "planner/simulate/simulate.h"

namespace ucudnn::simulate {

struct ReferenceTimeline {
  bool is_deadlock = false;
  std::vector<Span> tasks;
};

ReferenceTimeline Reference(const TaskGraph& graph);

}  // namespace ucudnn::simulate
