// Krizhevsky's schemes (b) and (c), in which the fully connected part of a network takes its images
// in passes. Pure function. Source: Krizhevsky 2014, section 4.
#pragma once

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/schedule/build_schedule.h"

namespace ucudnn::planner {

// Determines which nodes of `schedule` run once a pass (the fully connected layers and all nodes
// behind them), and with which images: in scheme (b) the images of one worker after the other, in
// (c) an equal share of every worker's images. The error says which layer or number of passes does
// not fit. REQUIRES: nodes and exchanges of `schedule` are complete.
Status DivideIntoPasses(const Graph& graph, const ScheduleOptions& options, Schedule& schedule);

}  // namespace ucudnn::planner
