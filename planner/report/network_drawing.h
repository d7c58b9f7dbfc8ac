// Draws a layout's network as an SVG figure. Pure function.
#pragma once

#include "planner/layout/strategies.h"
#include "planner/report/markup.h"

namespace ucudnn::planner {

// Draws each layer as a box with the colour and the text of the layer's configuration. The more
// bytes an edge moves in one step, the wider it is drawn.
Element DrawNetwork(const PlanningProblem& problem, const ParallelLayout& layout);

}  // namespace ucudnn::planner
