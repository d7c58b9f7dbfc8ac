// Finds the timeline of a graph of tasks by advancing from end to end and looking at every task
// each time. It is slow, and follows only from the definition of resources, queues and
// dependencies.
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
