// A plan as a schedule. Pure function.
#pragma once

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/layout/planning_problem.h"
#include "planner/machine/machine.h"
#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

struct ScheduleOptions {
  UpdateModel update = UpdateModel::kOwner;  // or kHierarchical
  // Krizhevsky's scheme for the fully connected part: 'a' takes all images at once, 'b' and 'c' in
  // `passes` passes, 0 standing for as many as devices compute the layer before.
  char scheme = 'a';
  int passes = 0;
  ConnectedUpdate connected_update = ConnectedUpdate::kEachBatch;
};

// One step of `assignment`, which `problem` was posed for: that of `graph`'s own layers on
// `machine`. An error names the layer and its configuration for which there is no rule, or the
// option that does not fit.
Result<Schedule> BuildSchedule(const Graph& graph, const PlanningProblem& problem,
                               const Assignment& assignment, const Machine& machine,
                               const ScheduleOptions& options = {});

}  // namespace ucudnn::planner
