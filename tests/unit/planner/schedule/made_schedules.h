// Makes plans and their schedules for tests.
#pragma once

#include <random>
#include <string>

#include "planner/layout/planning_problem.h"
#include "planner/schedule/build_schedule.h"

namespace ucudnn::planner {

// A network, a machine, the problem of planning the network on the machine, and a plan.
struct Planned {
  Graph graph;
  Machine machine;
  PlanningProblem problem;
  Assignment assignment;

  Result<Schedule> Scheduled(const ScheduleOptions& options = {}) const {
    return BuildSchedule(graph, problem, assignment, machine, options);
  }
};

// Returns a network with DeePa's costs and without an assignment, which the caller sets. Layers
// without a pin have only configurations for which a schedule has a rule.
Planned Pose(const Graph& graph, int batch, const Machine& machine,
             const ConfigurationOptions& configurations = {});

Assignment RandomAssignment(const PlanningProblem& problem, std::mt19937& random);

// Returns a graph with convolutions (also grouped and transposed), normalizations, a sum, a
// concatenation and a classifier. Two layers read the sum, one of them through a normalization.
Graph ManyOperators();

}  // namespace ucudnn::planner
