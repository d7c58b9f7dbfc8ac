// Writes layouts as graphs for Graphviz. Pure function.
#pragma once

#include <string>

#include "planner/layout/strategies.h"

namespace ucudnn::planner {

// Draws one box per layer, coloured by its configuration. The text at an edge gives the bytes that
// it moves in one step.
std::string FormatDot(const PlanningProblem& problem, const ParallelLayout& layout);

}  // namespace ucudnn::planner
