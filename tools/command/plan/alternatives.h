// Additions of `ucudnn plan` to the best layout: the next best ones, and the cost of less memory.
#pragma once

#include "base/status.h"
#include "planner/layout/planning_problem.h"

namespace ucudnn::command {

// Prints the `plans` layouts of least time, and how each differs from the first. Fails if the
// search is not exact.
Status PrintBestPlans(const planner::PlanningProblem& problem, int plans);

// Prints layouts that no other beats in both time and a device's memory, found at `points` limits.
Status PrintFrontier(const planner::PlanningProblem& problem, int points);

}  // namespace ucudnn::command
