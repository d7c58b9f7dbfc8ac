// Krizhevsky's schemes (b) and (c), which compute the fully connected part of a network in several
// passes over the images. The function keeps no state, and changes only the schedule that it is
// given. Source: Krizhevsky 2014, section 4.
#pragma once

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/schedule/build_schedule.h"

namespace ucudnn::planner {

// Sets schedule.passes: the nodes that run once per pass (the fully connected layers and all nodes
// that depend on them), and the images of each pass. In scheme (b) a pass has consecutive images.
// If there are as many passes as workers, these are the images of one worker. In scheme (c) a pass
// has an equal share of every worker's images. The error names the layer or the number of passes
// that does not fit. REQUIRES: nodes and exchanges of `schedule` are complete.
Status DivideIntoPasses(const Graph& graph, const ScheduleOptions& options, Schedule& schedule);

}  // namespace ucudnn::planner
