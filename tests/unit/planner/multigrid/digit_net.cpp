#include "unit/planner/multigrid/digit_net.h"

#include <random>
#include <string>

#include "planner/graph/networks/chain.h"
#include "tests/support/must.h"

namespace ucudnn::multigrid {

ResidualChain DigitNet(const DigitNetShape& shape) {
  planner::Chain net("digits", 1, shape.extent);
  const planner::Convolution convolution = planner::Square(shape.channels, 3, 1, 1, true);
  net.Append("open", convolution);
  net.Relu("open.relu");
  for (int step = 0; step < shape.steps; ++step) {
    const std::string name = "step" + std::to_string(step);
    const planner::NodeId state = net.last();
    net.Append(name, convolution);
    net.Relu(name + ".relu");
    net.Join(name + ".add", planner::Add{}, {net.last(), state});
  }
  net.Append("close", planner::FullyConnected{.outputs = shape.classes});
  net.Append("softmax", planner::Softmax{});
  return test::Must(MakeResidualChain(test::Must(net.Build()), BatchNorms::kRefused));
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
