// Writes layouts as graphs for Graphviz. Pure function.
#pragma once

#include <string>

#include "planner/layout/strategies.h"

namespace ucudnn::planner {

// Draws one box per layer, coloured by its configuration. Edges say what they move in one step.
std::string FormatDot(const PlanningProblem& problem, const ParallelLayout& layout);

}  // namespace ucudnn::planner
