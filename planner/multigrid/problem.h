// What a solve is given: a chain, its numbers and what goes in.
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
  std::vector<double> input;  // one image, as the chain's first node takes it
  // A stage of N steps has h = time / N; where `time` is 0, h = step.
  double time = 0;
  double step = 1;
  bool has_drawn_weights = true;
  uint64_t seed = 0;  // of those
};

// `graph` with weights and an image drawn by `seed`: the image's numbers from N(0, 1). Kirby's
// networks have T = 1, others h = 1.
Result<Problem> DrawnProblem(const planner::Graph& graph, BatchNorms norms, uint64_t seed);

// The same without parameters and image, for networks too large to draw: `time` and `step` alone.
Result<Problem> UndrawnProblem(const planner::Graph& graph, BatchNorms norms);

// The image of DrawnProblem.
std::vector<double> DrawImage(const ResidualChain& chain, uint64_t seed);

// Those of a rank's layers: taken from the problem, copied where others need them, too, or drawn
// where it has none. Ranks may call it at the same time.
Parameters TakeParameters(int rank, const Placement& placement, bool copies, Problem& problem);

// The chain of `weights` alone, without opening and closing layers.
Result<Problem> ProblemOf(const ChainWeights& weights, planner::ActivationKind activation);

// Replaces the weights of `problem` by arrays named like its nodes, as torch names them: of a
// convolution, a fully connected layer or a Scale NAME.weight and NAME.bias (or NAME for the
// weights); of a batch normalisation running_mean and running_var as well, which are folded in with
// an epsilon of 1e-5. The error is one line that begins with `file` and names the array: missing,
// of another number of values, or not finite.
Status TakeWeights(const std::vector<NamedArray>& arrays, const std::string& file,
                   Problem& problem);

}  // namespace ucudnn::multigrid
