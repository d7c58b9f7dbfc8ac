#include "unit/planner/multigrid/staged_net.h"

#include <random>
#include <string>
#include <utility>

#include "planner/graph/networks/chain.h"
#include "planner/multigrid/host/network.h"

namespace ucudnn::multigrid {
namespace {

planner::Graph ThreeStages() {
  planner::Chain net("three", 1, 6);
  int number = 0;
  const auto convolve = [&](int filters, int stride) {
    net.Append("conv" + std::to_string(number++), planner::Square(filters, 3, stride, 1, true));
  };
  for (const auto& [channels, steps] : {std::pair(2, 19), {3, 6}, {4, 3}}) {
    convolve(channels, channels == 2 ? 1 : 2);
    for (int i = 0; i < steps; ++i) {
      const planner::NodeId before = net.last();
      convolve(channels, 1);
      net.Relu("act" + std::to_string(number));
      net.Join("add" + std::to_string(number), planner::Add{}, {net.last(), before});
    }
  }
  net.Append("fc", planner::FullyConnected{.outputs = 5});
  net.Append("softmax", planner::Softmax{});
  return *net.Build();
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
