// Layers of a network in double precision on the host: plain loops over packed NCHW tensors, the
// reference that every other back end is compared with. Forward, the transposed Jacobian and the
// gradient of the parameters. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/graph/shapes.h"
#include "planner/multigrid/parameters.h"

namespace ucudnn::multigrid {

struct HostLayer {
  planner::Operator op;
  planner::Shape input;   // of one image
  planner::Shape output;  // of one image
};

// An error, in one line, for an operator that has no reference, as a Softmax or a Concat.
Status CheckHostLayer(const std::string& node, const HostLayer& layer);
// What `weights` of `layer` must have: numbers in `weights` and `bias`.
struct WeightCounts {
  int64_t weights = 0;
  int64_t bias = 0;
};
WeightCounts WeightCountsOf(const HostLayer& layer);
// An error names the node, what it has and what is expected.
Status CheckWeights(const std::string& node, const HostLayer& layer, const NodeWeights& weights);

// How many numbers of scratch the functions below need.
size_t ScratchOf(const HostLayer& layer);

// What a layer reads and writes, for `batch` images.
struct LayerCall {
  const HostLayer& layer;
  const NodeWeights& weights;
  int batch = 1;
  double* scratch = nullptr;
};

void Forward(const LayerCall& call, const double* x, double* y);
// dx = J^T dy, with J at x; y is Forward's.
void TransposedJacobian(const LayerCall& call, const double* x, const double* y, const double* dy,
                        double* dx);
// gradient += factor * (the derivative by the weights)^T dy.
void AddGradient(const LayerCall& call, const double* x, const double* dy, double factor,
                 NodeWeights& gradient);

}  // namespace ucudnn::multigrid
