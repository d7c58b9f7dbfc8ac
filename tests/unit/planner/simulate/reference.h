// Finds the timeline of a graph of tasks by advancing from end to end and looking at every task
// each time. It is slow, and follows from the definition of resources, queues and dependencies
// alone.
#pragma once

#include <vector>

#include "planner/simulate/simulate.h"

namespace ucudnn::simulate {

struct ReferenceTimeline {
  bool is_deadlock = false;
  std::vector<Span> tasks;
};

ReferenceTimeline Reference(const TaskGraph& graph);

// These functions read nothing of a timeline but the spans of its tasks.
double ReferenceBusyMs(const TaskGraph& graph, const std::vector<Span>& tasks, ResourceId resource);
int ReferenceMostAtOnce(const TaskGraph& graph, const std::vector<Span>& tasks,
                        ResourceId resource);
ActivityUse ReferenceActivity(const TaskGraph& graph, const std::vector<Span>& tasks,
                              Activity activity);  // without its share of the path

}  // namespace ucudnn::simulate
