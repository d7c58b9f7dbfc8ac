// What `ucudnn plan` shows beside the best layout: the next best ones, and what less memory costs.
#pragma once

#include "base/status.h"
#include "planner/layout/planning_problem.h"

namespace ucudnn::command {

// Prints the `plans` layouts of least time, and where each differs from the first. An error where
// the search is not exact.
Status PrintBestPlans(const planner::PlanningProblem& problem, int plans);

// Prints layouts that no other beats in both time and memory of a device, found at `points` limits.
Status PrintFrontier(const planner::PlanningProblem& problem, int points);

}  // namespace ucudnn::command
