#include "unit/planner/multigrid/digit_net.h"

#include <random>
#include <string>
#include <utility>

#include "planner/graph/networks/chain.h"
#include "planner/multigrid/host/network.h"
#include "tests/support/must.h"

namespace ucudnn::multigrid {
namespace {

struct StageShape {
  int channels;
  int steps;
};

ResidualChain NetOfStages(int extent, const std::vector<StageShape>& stages, bool opens_with_relu,
                          int classes) {
  planner::Chain net("stages", 1, extent);
  int number = 0;
  const auto convolve = [&](int filters, int stride) {
    net.Append("conv" + std::to_string(number++), planner::Square(filters, 3, stride, 1, true));
  };
  for (const auto& [channels, steps] : stages) {
    convolve(channels, number == 0 ? 1 : 2);
    if (opens_with_relu) net.Relu("open" + std::to_string(number));
    for (int i = 0; i < steps; ++i) {
      const planner::NodeId before = net.last();
      convolve(channels, 1);
      net.Relu("act" + std::to_string(number));
      net.Join("add" + std::to_string(number), planner::Add{}, {net.last(), before});
    }
  }
  net.Append("fc", planner::FullyConnected{.outputs = classes});
  net.Append("softmax", planner::Softmax{});
  return test::Must(MakeResidualChain(test::Must(net.Build()), BatchNorms::kRefused));
}

}  // namespace

ResidualChain DigitNet(const DigitNetShape& shape) {
  return NetOfStages(shape.extent, {{shape.channels, shape.steps}}, true, shape.classes);
}

WeightedChain DrawnStages() {
  WeightedChain net = {.chain = NetOfStages(6, {{2, 19}, {3, 6}, {4, 3}}, false, 5), .batch = 2};
  net.parameters = DrawParameters(net.chain, 5);
  std::mt19937_64 random(6);
  net.first = DrawnNumbers(net.chain.shapes[0].Features() * net.batch, 1, random);
  return net;
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
