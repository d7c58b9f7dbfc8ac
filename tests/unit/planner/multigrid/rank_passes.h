// Passes through a network on several ranks that are threads, as tests compare them to the bit.
#pragma once

#include <functional>
#include <vector>

#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/host/network.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

// What a pass forward and one backward came to.
struct PassResults {
  std::vector<double> output;
  std::vector<double> gradient;   // of all layers
  std::vector<double> residuals;  // of both
  std::vector<Outcome> outcomes;
};

bool operator==(const PassResults& a, const PassResults& b);

using PeersOf = std::function<Peers&(Peers&)>;
using SolversOf = std::function<StageSolvers*(int rank)>;

// On as many ranks as threads; each is given its own layers' parameters, and adds its gradient to
// the result. Two passes each: the second one begins with the states of the first where `options`
// do so. `peers_of` and `solvers_of` replace a rank's peers and what solves its stages.
Result<PassResults> RunOn(int ranks, const WeightedChain& net, const NetworkSettings& settings,
                          const PeersOf& peers_of = nullptr, const SolversOf& solvers_of = nullptr);

}  // namespace ucudnn::multigrid
