// Makes plans and their schedules for tests.
#pragma once

#include <random>
#include <string>

#include "planner/layout/planning_problem.h"
#include "planner/schedule/build_schedule.h"

namespace ucudnn::planner {

// Holds a network, a machine, the problem of planning them, and a plan.
struct Planned {
  Graph graph;
  Machine machine;
  PlanningProblem problem;
  Assignment assignment;

  Result<Schedule> Scheduled(const ScheduleOptions& options = {}) const {
    return BuildSchedule(graph, problem, assignment, machine, options);
  }
};

// Makes a planned network with DeePa's costs; the caller sets the assignment. Layers without a pin
// have only configurations that a schedule has a rule for.
Planned Pose(const Graph& graph, int batch, const Machine& machine,
             const ConfigurationOptions& configurations = {});

Assignment RandomAssignment(const PlanningProblem& problem, std::mt19937& random);

// Returns a graph with convolutions, some of which are grouped or transposed, and with
// normalizations, a sum, a concatenation and a classifier. The sum has two readers, one of which
// reads it through a normalization.
Graph ManyOperators();

}  // namespace ucudnn::planner
