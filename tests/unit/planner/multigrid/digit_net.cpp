#include "unit/planner/multigrid/digit_net.h"

#include <random>
#include <string>

#include "tests/support/must.h"

namespace ucudnn::multigrid {

ResidualChain DigitNet(const DigitNetShape& shape) {
  planner::GraphBuilder builder("digits");
  const planner::Convolution convolution = {
      .filters = shape.channels, .window = {1, 3, 3}, .pad = {0, 1, 1}};
  const planner::Activation relu = {planner::ActivationKind::kRelu};
  const planner::NodeId image =
      builder.Add("image", planner::Input{1, {1, shape.extent, shape.extent}, 2}, {});
  const planner::NodeId open = builder.Add("open", convolution, {image});
  planner::NodeId last = builder.Add("open.relu", relu, {open});
  for (int step = 0; step < shape.steps; ++step) {
    const std::string name = "step" + std::to_string(step);
    const planner::NodeId convolved = builder.Add(name, convolution, {last});
    const planner::NodeId activated = builder.Add(name + ".relu", relu, {convolved});
    last = builder.Add(name + ".add", planner::Add{}, {activated, last});
  }
  last = builder.Add("close", planner::FullyConnected{.outputs = shape.classes}, {last});
  builder.Add("softmax", planner::Softmax{}, {last});
  return test::Must(MakeResidualChain(test::Must(builder.Build()), BatchNorms::kRefused));
}

Examples DigitExamples(const DigitNetShape& shape, int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1);
  const int features = shape.extent * shape.extent;
  std::vector<double> patterns(static_cast<size_t>(shape.classes) * features);
  for (double& pixel : patterns) pixel = normal(random);
  Examples examples;
  for (int image = 0; image < count; ++image) {
    const int label = image % shape.classes;
    for (int i = 0; i < features; ++i) {
      examples.images.push_back(patterns[label * features + i] + 0.1 * normal(random));
    }
    examples.labels.push_back(label);
  }
  return examples;
}

}  // namespace ucudnn::multigrid
