#include "unit/planner/multigrid/staged_net.h"

#include <random>
#include <string>
#include <utility>

#include "planner/multigrid/host/network.h"

namespace ucudnn::multigrid {
namespace {

planner::Graph ThreeStages() {
  planner::GraphBuilder builder("three");
  planner::NodeId last = builder.Add("data", planner::Input{1, {1, 6, 6}, 2}, {});
  int number = 0;
  const auto convolve = [&](int filters, int stride) {
    last = builder.Add("conv" + std::to_string(number++),
                       planner::Convolution{.filters = filters,
                                            .window = {1, 3, 3},
                                            .stride = {1, stride, stride},
                                            .pad = {0, 1, 1}},
                       {last});
  };
  const auto step = [&](int channels) {
    const planner::NodeId before = last;
    convolve(channels, 1);
    last = builder.Add("act" + std::to_string(number),
                       planner::Activation{planner::ActivationKind::kRelu}, {last});
    last = builder.Add("add" + std::to_string(number), planner::Add{}, {last, before});
  };
  for (const auto& [channels, steps] : {std::pair(2, 19), {3, 6}, {4, 3}}) {
    convolve(channels, channels == 2 ? 1 : 2);
    for (int i = 0; i < steps; ++i) step(channels);
  }
  last = builder.Add("fc", planner::FullyConnected{.outputs = 5}, {last});
  builder.Add("softmax", planner::Softmax{}, {last});
  return *builder.Build();
}

}  // namespace

WeightedChain DrawnStages() {
  WeightedChain net = {.chain = *MakeResidualChain(ThreeStages(), BatchNorms::kRefused),
                       .batch = 2};
  net.parameters = DrawParameters(net.chain, 5);
  std::mt19937_64 random(6);
  net.first = DrawnNumbers(net.chain.shapes[0].Features() * net.batch, 1, random);
  return net;
}

}  // namespace ucudnn::multigrid
