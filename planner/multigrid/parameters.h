// The trainable numbers of a network, on the host. Plain values.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::multigrid {

// Those of one node, as NumPy and torch have them: a convolution's weights [K, C/groups, d, h, w],
// a fully connected layer's [outputs, inputs], of a normalisation with frozen statistics or a Scale
// one factor a channel; `bias` one number an output channel. What a node does not have is empty.
struct NodeWeights {
  std::vector<double> weights;
  std::vector<double> bias;
};

// Those of every node of a graph, by NodeId. Of several ranks each has those of its own layers.
using Parameters = std::vector<NodeWeights>;
// As many zeros.
Parameters ZerosLike(const Parameters& parameters);

// A step of stochastic gradient descent with momentum, as torch.optim.SGD makes it:
// velocity = momentum * velocity + gradient; numbers -= rate * velocity.
struct Descent {
  double rate = 0;
  double momentum = 0;
};

// Told of nodes whose gradients are complete. It may be empty.
using GradientWatch = std::function<Status(const std::vector<planner::NodeId>& nodes)>;

}  // namespace ucudnn::multigrid
