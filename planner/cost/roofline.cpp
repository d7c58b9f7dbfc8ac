#include <algorithm>

#include "planner/cost/compute.h"
#include "planner/cost/partition.h"

namespace ucudnn::planner {
namespace {

constexpr double kBytesAnElement = 4;

double LargestElements(const Parts& parts) {
  double elements = 1;
  for (const auto& axis : parts.axes) {
    int64_t longest = 0;
    for (const Interval& interval : axis) longest = std::max(longest, interval.Length());
    elements *= static_cast<double>(longest);
  }
  return elements;
}

}  // namespace

double LargestShare(const PlannedLayer& layer, const Degrees& degrees) {
  const Shape& output = layer.output;
  const double all = static_cast<double>(output.n) * static_cast<double>(output.Features());
  const double share = LargestElements(ComputedParts(output, degrees)) / all;
  if (degrees.r == 1) return share;
  return share * static_cast<double>(SummedPart(layer, degrees, 0).Length()) /
         layer.inputs.front().shape.c;
}

ComputeModel::Cost Roofline::Compute(const PlannedLayer& layer, const Degrees& degrees) const {
  const double share = LargestShare(layer, degrees);
  const double operations = ForwardOperations(layer) * share;
  const double output = LargestElements(ComputedParts(layer.output, degrees));
  const double kept = LargestElements(OutputParts(layer.output, degrees));
  double inputs = 0;
  bool input_gradient = false;
  for (int input = 0; input < static_cast<int>(layer.inputs.size()); ++input) {
    inputs += LargestElements(NeededParts(layer, input, degrees));
    input_gradient |= layer.inputs[static_cast<size_t>(input)].has_gradient;
  }
  const double weights = static_cast<double>(layer.weights) / degrees.WeightParts();
  const double elements_ms = kBytesAnElement / (device_.memory_gb_per_s * 1e6);
  const double pass_ms =
      std::max(operations / (device_.tflops * 1e9), (inputs + weights + output) * elements_ms);
  const int passes = 1 + (input_gradient ? 1 : 0) + (layer.trains_weights ? 1 : 0);
  const double followers_ms =
      static_cast<double>(layer.followers.size()) * 2 * 2 * kept * elements_ms;
  return {passes * pass_ms + followers_ms, 0, false};
}

}  // namespace ucudnn::planner
