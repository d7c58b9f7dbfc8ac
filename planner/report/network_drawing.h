// Draws a layout's network as an SVG figure. Pure function.
#pragma once

#include "planner/layout/strategies.h"
#include "planner/report/markup.h"

namespace ucudnn::planner {

// Draws a box per layer, which has the colour and the text of its configuration. The more bytes an
// edge moves in one step, the wider it is drawn.
Element DrawNetwork(const PlanningProblem& problem, const ParallelLayout& layout);

}  // namespace ucudnn::planner
