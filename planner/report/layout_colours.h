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
  std::vector<std::string> names;  // by colour: text of its configuration
  std::vector<int> layers;         // by colour: number of layers
};

// Numbers the colours by the first layer that has each configuration.
LayoutColours ColourLayers(const PlanningProblem& problem, const Assignment& assignment);

}  // namespace ucudnn::planner
