// Assigns a colour to each configuration that a layout uses. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "planner/layout/planning_problem.h"

namespace ucudnn::planner {

// Formats "n16", "n4h2w2", or "n4 from device 8" if the configuration's first device is not device
// 0.
std::string ShortText(const ParallelConfiguration& configuration);

struct LayoutColours {
  std::vector<int> of_layer;
  std::vector<std::string> names;  // by colour: text of its configuration
  std::vector<int> layers;         // by colour: number of layers
};

// Assigns a colour to each configuration. Colours are numbered from 0 in the order in which the
// layers first use the configurations.
LayoutColours ColourLayers(const PlanningProblem& problem, const Assignment& assignment);

}  // namespace ucudnn::planner
