// Runs passes through a network on several ranks that are threads, so that tests can compare their
// bits.
#pragma once

#include <functional>
#include <vector>

#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/host/network.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

// Holds the results of the two passes that RunOn makes: the output of the second pass, the sum of
// both gradients, and the residuals and outcomes of all solves on rank 0.
struct PassResults {
  std::vector<double> output;
  std::vector<double> gradient;   // of all layers
  std::vector<double> residuals;  // of both directions
  std::vector<Outcome> outcomes;
};

bool operator==(const PassResults& a, const PassResults& b);

using PeersOf = std::function<Peers&(Peers&)>;
using SolversOf = std::function<StageSolvers*(int rank)>;

// Runs two passes on the rank of `peers`, which has the `parameters` of its own layers. Adds their
// gradients to `gradient`. The rank that has the output writes it to `passes`, and rank 0 writes
// the residuals and outcomes there. Other ranks do not change `passes`.
Status RunPasses(Peers& peers, const WeightedChain& net, const NetworkSettings& settings,
                 PassResults& passes, Parameters& gradient);

// Runs `ranks` threads, one for each rank. A rank has the parameters of its own layers and adds
// their gradient to the result. Each rank makes two passes; the second begins with the states of
// the first if the settings say so. `peers_of` and `solvers_of` replace a rank's peers and the
// solvers of its stages if they are given.
Result<PassResults> RunOn(int ranks, const WeightedChain& net, const NetworkSettings& settings,
                          const PeersOf& peers_of = nullptr, const SolversOf& solvers_of = nullptr);

}  // namespace ucudnn::multigrid
