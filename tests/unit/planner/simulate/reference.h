// Finds what a graph of tasks does over time by going from end to end and looking at every task
// each time. It is slow, and written from the meaning of resources, queues and dependencies alone.
#pragma once

#include <vector>

#include "planner/simulate/simulate.h"

namespace ucudnn::simulate {

struct ReferenceTimeline {
  bool is_deadlock = false;
  std::vector<Span> tasks;
};

ReferenceTimeline Reference(const TaskGraph& graph);

// These results follow from the spans alone.
double ReferenceBusyMs(const TaskGraph& graph, const std::vector<Span>& tasks, ResourceId resource);
int ReferenceMostAtOnce(const TaskGraph& graph, const std::vector<Span>& tasks,
                        ResourceId resource);
ActivityUse ReferenceActivity(const TaskGraph& graph, const std::vector<Span>& tasks,
                              Activity activity);  // without its share of the path

}  // namespace ucudnn::simulate
