// Draws a layout's network as an SVG figure. Pure function.
#pragma once

#include "planner/layout/strategies.h"
#include "planner/report/markup.h"

namespace ucudnn::planner {

// Draws a box per layer, coloured by its configuration, which is also written on it. The more an
// edge moves in one step, the wider it is.
Element DrawNetwork(const PlanningProblem& problem, const ParallelLayout& layout);

}  // namespace ucudnn::planner
