// Runs passes through a network on one or several ranks, so that tests can compare the results.
#pragma once

#include <functional>
#include <vector>

#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/host/network.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

// The results of two forward and backward passes: the output of the second one, the sum of the two
// gradients, and the residuals and outcomes of all solves on rank 0.
struct PassResults {
  std::vector<double> output;
  std::vector<double> gradient;   // of all layers
  std::vector<double> residuals;  // of forward and backward solves, with their largest states
  std::vector<Outcome> outcomes;
};

bool operator==(const PassResults& a, const PassResults& b);

using PeersOf = std::function<Peers&(Peers&)>;
using SolversOf = std::function<StageSolvers*(int rank)>;

// Runs two forward and backward passes on the rank of `peers`, with the parameters of its layers.
// `gradient` receives the sum of the two gradients. The rank that has the output writes it to
// `passes`, and rank 0 writes the residuals and outcomes there. Other ranks do not change `passes`.
Status RunPasses(Peers& peers, const WeightedChain& net, const NetworkSettings& settings,
                 PassResults& passes, Parameters& gradient);

// Calls RunPasses on `ranks` threads, one for each rank, and returns the results of all ranks
// together. If `peers_of` or `solvers_of` is set, it replaces a rank's peers or the solvers of its
// stages.
Result<PassResults> RunOn(int ranks, const WeightedChain& net, const NetworkSettings& settings,
                          const PeersOf& peers_of = nullptr, const SolversOf& solvers_of = nullptr);

}  // namespace ucudnn::multigrid
