// What `ucudnn plan` prints in addition to the best layout: the next best layouts, and the cost of
// less memory.
#pragma once

#include "base/status.h"
#include "planner/layout/planning_problem.h"

namespace ucudnn::command {

// Prints the `plans` fastest layouts, and how each of them differs from the first. Fails if the
// search cannot prove that they are the fastest.
Status PrintBestPlans(const planner::PlanningProblem& problem, int plans);

// Prints layouts that are found at up to `points` memory limits. No printed layout beats another
// one in both time and memory of a device.
Status PrintFrontier(const planner::PlanningProblem& problem, int points);

}  // namespace ucudnn::command
