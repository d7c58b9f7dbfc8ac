// A colour for each configuration that a layout uses. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "planner/layout/planning_problem.h"

namespace ucudnn::planner {

// "n16", "n4h2w2"; "n4 from device 8" where the group does not begin at device 0.
std::string ShortText(const ParallelConfiguration& configuration);

struct LayoutColours {
  std::vector<int> of_layer;
  std::vector<std::string> names;  // by colour: its configuration
  std::vector<int> layers;         // by colour: how many have it
};

// By first appearance.
LayoutColours ColourLayers(const PlanningProblem& problem, const Assignment& assignment);

}  // namespace ucudnn::planner
