// A layout's network as an SVG figure. Pure function.
#pragma once

#include "planner/layout/strategies.h"
#include "planner/report/markup.h"

namespace ucudnn::planner {

// A box a layer, coloured by its configuration, which is written on it too; an edge is the wider
// the more it moves in one step.
Element DrawNetwork(const PlanningProblem& problem, const ParallelLayout& layout);

}  // namespace ucudnn::planner
