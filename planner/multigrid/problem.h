// The data of a solve: a chain, its parameters and an input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/graph.h"
#include "planner/multigrid/data/chain_weights.h"
#include "planner/multigrid/data/safetensors.h"
#include "planner/multigrid/host/placement.h"
#include "planner/multigrid/host/stage.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

struct Problem {
  ResidualChain chain;
  Parameters parameters;
  std::vector<double> input;  // one image: the input of the chain's first node
  // The step h of a stage of N steps is time / N, or `step` if `time` is 0.
  double time = 0;
  double step = 1;
  bool has_drawn_weights = true;
  uint64_t seed = 0;  // seed of the drawn weights
};

// Returns `graph` with weights and an image drawn from `seed`; the image's numbers are from N(0,
// 1). Networks called kirby-* have time = 1, others step = 1. Fails if the graph is no residual
// chain.
Result<Problem> DrawnProblem(const planner::Graph& graph, BatchNorms norms, uint64_t seed);

// Returns a problem without parameters and image. TakeParameters then draws only the parameters of
// one rank. `time` and `step` are as in DrawnProblem.
Result<Problem> UndrawnProblem(const planner::Graph& graph, BatchNorms norms);

// Returns the image that DrawnProblem draws.
std::vector<double> DrawImage(const ResidualChain& chain, uint64_t seed);

// Returns the parameters of a rank's layers. Draws them if the problem has no parameters. Otherwise
// moves them out of the problem or, if `copies` is set because other ranks need them too, copies
// them. Several ranks may call it at the same time.
Parameters TakeParameters(int rank, const Placement& placement, bool copies, Problem& problem);

// Returns a problem that has only the chain of `weights`, without opening and closing layers.
Result<Problem> ProblemOf(const ChainWeights& weights, planner::ActivationKind activation);

// Replaces the weights of `problem` by arrays with the names of its nodes, as torch names them:
// NAME.weight (or NAME) and NAME.bias for a convolution, a fully connected layer or a Scale. A
// batch normalisation also has running_mean and running_var. They become part of its factors and
// shifts, with an epsilon of 1e-5. A batch normalisation without scale and shift has only these two
// arrays. The error is one line that begins with `file` and names the wrong array. An array is
// wrong if it is missing or has another number of values, a value that is not finite or a negative
// variance.
Status TakeWeights(const std::vector<NamedArray>& arrays, const std::string& file,
                   Problem& problem);

}  // namespace ucudnn::multigrid
