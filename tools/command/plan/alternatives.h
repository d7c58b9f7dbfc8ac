// Tables that `ucudnn plan` prints after the best layout: the next best layouts, and layouts that
// need less memory but more time.
#pragma once

#include "base/status.h"
#include "planner/layout/planning_problem.h"

namespace ucudnn::command {

// Prints the `plans` fastest layouts, and how each of them differs from the first. Fails if the
// search cannot prove that they are the fastest.
Status PrintBestPlans(const planner::PlanningProblem& problem, int plans);

// Prints the fastest layouts at up to `points` limits of a device's memory. No printed layout beats
// another one in both time and memory.
Status PrintFrontier(const planner::PlanningProblem& problem, int points);

}  // namespace ucudnn::command
