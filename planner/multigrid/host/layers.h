// Layers of a network in double precision on the host, as plain loops over packed NCHW tensors.
// They are the reference for every other back end. They compute the forward pass, the transposed
// Jacobian and the gradient of the parameters. The functions keep no state; their results go to the
// caller's arrays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/graph/shapes.h"
#include "planner/multigrid/parameters.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

struct HostLayer {
  planner::Operator op;
  planner::Shape input;   // shape for one image
  planner::Shape output;  // shape for one image
};

// Returns the layer of a node. REQUIRES: the node has an input.
HostLayer LayerOf(const ResidualChain& chain, planner::NodeId id);

// Fails, with one line, for an operator that the functions below do not compute, such as Softmax or
// Concat.
Status CheckHostLayer(const std::string& node, const HostLayer& layer);
// The sizes of the vectors that NodeWeights must have for a layer.
struct WeightCounts {
  int64_t weights = 0;
  int64_t bias = 0;
};
WeightCounts WeightCountsOf(const HostLayer& layer);
WeightCounts WeightCountsOf(const ResidualChain& chain, planner::NodeId id);
// Returns whether training changes the weights of a layer. The factors and shifts of a batch
// normalisation without scale and shift hold its statistics, so training leaves them as they are.
bool IsTrained(const planner::Operator& op);
// Fails unless the weights have the sizes of WeightCountsOf(). The error names the node, the sizes
// and the expected sizes.
Status CheckWeights(const std::string& node, const HostLayer& layer, const NodeWeights& weights);

// Returns the number of doubles of scratch that the functions below need.
size_t ScratchOf(const HostLayer& layer);

// The arguments of a layer's functions, for `batch` images.
struct LayerCall {
  const HostLayer& layer;
  const NodeWeights& weights;
  int batch = 1;
  double* scratch = nullptr;
};

void Forward(const LayerCall& call, const double* x, double* y);
// Computes dx = J^T dy, with the Jacobian J at x. REQUIRES: y is the result of Forward.
void TransposedJacobian(const LayerCall& call, const double* x, const double* y, const double* dy,
                        double* dx);
// Adds factor * (dy/dweights)^T dy to `gradient`, or nothing if the layer is not trained.
void AddGradient(const LayerCall& call, const double* x, const double* dy, double factor,
                 NodeWeights& gradient);

}  // namespace ucudnn::multigrid
