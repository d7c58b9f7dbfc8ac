#include "planner/report/layout_colours.h"

#include <algorithm>

namespace ucudnn::planner {

std::string ShortText(const ParallelConfiguration& configuration) {
  const std::string degrees = ShortText(configuration.degrees);
  if (configuration.first_device == 0) return degrees;
  return degrees + " from device " + std::to_string(configuration.first_device);
}

LayoutColours ColourLayers(const PlanningProblem& problem, const Assignment& assignment) {
  LayoutColours colours;
  for (int layer = 0; layer < static_cast<int>(assignment.size()); ++layer) {
    const std::string name = ShortText(ConfigurationOf(problem, assignment, layer));
    const auto known = std::find(colours.names.begin(), colours.names.end(), name);
    const auto colour = static_cast<size_t>(known - colours.names.begin());
    if (known == colours.names.end()) {
      colours.names.push_back(name);
      colours.layers.push_back(0);
    }
    ++colours.layers[colour];
    colours.of_layer.push_back(static_cast<int>(colour));
  }
  return colours;
}

}  // namespace ucudnn::planner
