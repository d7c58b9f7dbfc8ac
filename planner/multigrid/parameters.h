// The trainable numbers of a network, on the host. Plain values.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::multigrid {

// The numbers of one node, laid out as in NumPy and torch. `weights` is [K, C/groups, d, h, w] for
// a convolution, [outputs, inputs] for a fully connected layer, and one factor per channel for a
// Scale or a normalisation with frozen statistics. `bias` has one number per output channel. A
// vector that a node does not need is empty.
struct NodeWeights {
  std::vector<double> weights;
  std::vector<double> bias;
};

// The numbers of every node of a graph, by NodeId. If there are several ranks, each rank has only
// the numbers of its own layers.
using Parameters = std::vector<NodeWeights>;
// Returns zeros in the same arrangement as `parameters`.
inline Parameters ZerosLike(const Parameters& parameters) {
  Parameters zeros(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    zeros[i].weights.assign(parameters[i].weights.size(), 0.0);
    zeros[i].bias.assign(parameters[i].bias.size(), 0.0);
  }
  return zeros;
}

// The settings of a step of stochastic gradient descent with momentum, as in torch.optim.SGD:
// velocity = momentum * velocity + gradient; numbers -= rate * velocity.
struct Descent {
  double rate = 0;
  double momentum = 0;
};

// Receives nodes when their gradients are complete. May be empty.
using GradientWatch = std::function<Status(const std::vector<planner::NodeId>& nodes)>;

}  // namespace ucudnn::multigrid
