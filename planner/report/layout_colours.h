// Gives each configuration that a layout uses a colour. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "planner/layout/planning_problem.h"

namespace ucudnn::planner {

// Formats "n16", "n4h2w2", or "n4 from device 8" if the group does not begin at device 0.
std::string ShortText(const ParallelConfiguration& configuration);

struct LayoutColours {
  std::vector<int> of_layer;
  std::vector<std::string> names;  // configuration of each colour
  std::vector<int> layers;         // number of layers of each colour
};

// Numbers the colours by first appearance.
LayoutColours ColourLayers(const PlanningProblem& problem, const Assignment& assignment);

}  // namespace ucudnn::planner
