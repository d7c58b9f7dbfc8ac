// Plans and their schedules for tests.
#pragma once

#include <random>
#include <string>

#include "planner/layout/planning_problem.h"
#include "planner/schedule/build_schedule.h"

namespace ucudnn::planner {

// A network, its plan and all that was asked for it.
struct Planned {
  Graph graph;
  Machine machine;
  PlanningProblem problem;
  Assignment assignment;

  Result<Schedule> Scheduled(const ScheduleOptions& options = {}) const {
    return BuildSchedule(graph, problem, assignment, machine, options);
  }
};

// Costs are DeePa's; the assignment is left to the caller.
Planned Pose(const Graph& graph, int batch, const Machine& machine,
             const ConfigurationOptions& configurations = {});

// Some configuration of every layer.
Assignment RandomAssignment(const PlanningProblem& problem, std::mt19937& random);

// Convolutions with groups, a transposed one, normalizations, two readers of one sum (one behind
// its normalization), a concatenation and a classifier.
Graph ManyOperators();

}  // namespace ucudnn::planner
