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

// These functions use only the spans of a timeline's tasks.
double ReferenceBusyMs(const TaskGraph& graph, const std::vector<Span>& tasks, ResourceId resource);
int ReferenceMostAtOnce(const TaskGraph& graph, const std::vector<Span>& tasks,
                        ResourceId resource);
ActivityUse ReferenceActivity(const TaskGraph& graph, const std::vector<Span>& tasks,
                              Activity activity);  // path_ms is left 0

}  // namespace ucudnn::simulate
