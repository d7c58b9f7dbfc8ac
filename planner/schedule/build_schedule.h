// Turns a plan into a schedule. Pure functions.
#pragma once

#include <functional>

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/layout/planning_problem.h"
#include "planner/machine/machine.h"
#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

struct ScheduleOptions {
  UpdateModel update = UpdateModel::kOwner;  // kOwner or kHierarchical
  // Krizhevsky's scheme for the fully connected part. 'a' takes all images at once. 'b' and 'c'
  // take them in `passes` passes; 0 means as many as devices compute the layer before.
  char scheme = 'a';
  int passes = 0;
  ConnectedUpdate connected_update = ConnectedUpdate::kEachBatch;
};

// Returns a function that tells whether BuildSchedule has rules for a layer of `graph` and its
// followers in a configuration, as ConfigurationOptions::is_accepted expects it.
std::function<bool(const PlannedLayer&, const Degrees&)> HasRule(const Graph& graph);

// Returns one step of `assignment` for `graph`'s own layers on `machine`. REQUIRES: `problem` was
// made from them. An error names the layer and its configuration for which there is no rule, or the
// option that does not fit.
Result<Schedule> BuildSchedule(const Graph& graph, const PlanningProblem& problem,
                               const Assignment& assignment, const Machine& machine,
                               const ScheduleOptions& options = {});

}  // namespace ucudnn::planner
