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
  // Krizhevsky's scheme for the fully connected part: 'a' computes all images at once, 'b' and 'c'
  // compute them in `passes` passes. If `passes` is 0, the number of passes is the number of
  // devices that compute the layer in front of that part.
  char scheme = 'a';
  int passes = 0;
  ConnectedUpdate connected_update = ConnectedUpdate::kEachBatch;
};

// Returns a function for ConfigurationOptions::is_accepted. That function returns whether
// BuildSchedule has rules for a layer of `graph` and the layer's followers in a configuration.
std::function<bool(const PlannedLayer&, const Degrees&)> HasRule(const Graph& graph);

// Returns one training step in which `graph` is divided as `assignment` says, on `machine`.
// REQUIRES: `problem` was made from `graph` for the devices of `machine`. An error names the option
// that does not fit, or the layer and the configuration for which there is no rule.
Result<Schedule> BuildSchedule(const Graph& graph, const PlanningProblem& problem,
                               const Assignment& assignment, const Machine& machine,
                               const ScheduleOptions& options = {});

}  // namespace ucudnn::planner
