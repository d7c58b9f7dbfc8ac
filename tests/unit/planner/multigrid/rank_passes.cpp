#include "unit/planner/multigrid/rank_passes.h"

#include <algorithm>
#include <mutex>

#include "planner/multigrid/distributed/thread_ranks.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

bool operator==(const PassResults& a, const PassResults& b) {
  // Residuals that were not measured are NaN. Two NaNs count as equal.
  const auto same = [](double x, double y) { return x == y || (x != x && y != y); };
  return a.output == b.output && a.gradient == b.gradient && a.outcomes == b.outcomes &&
         std::equal(a.residuals.begin(), a.residuals.end(), b.residuals.begin(), b.residuals.end(),
                    same);
}

Status RunPasses(Peers& peers, const WeightedChain& net, const NetworkSettings& settings,
                 PassResults& passes, Parameters& gradient) {
  NetworkSettings own = settings;
  own.peers = &peers;
  UCUDNN_ASSIGN_OR_RETURN(const Placement placement, PlaceNetwork(net.chain, own, peers.size()));
  const Parameters parameters = ParametersOf(peers.rank(), placement, net.parameters);
  UCUDNN_ASSIGN_OR_RETURN(const auto network, NetworkSolver::Make(net.chain, parameters, own));
  gradient = ZerosLike(parameters);
  for (int pass = 0; pass < 2; ++pass) {
    UCUDNN_ASSIGN_OR_RETURN(const double* output, network->Forward(net.first.data()));
    std::vector<double> last;
    if (peers.rank() == network->logits_rank()) {
      last.assign(output, output + network->output_size() * net.batch);
      passes.output = last;
    }
    for (double& number : last) number = number / 2 + 1;  // an adjoint that depends on the output
    UCUDNN_RETURN_IF_ERROR(network->Backward(last.data(), gradient));
    if (peers.rank() != 0) continue;
    for (const auto* solutions : {&network->forward_solutions(), &network->backward_solutions()}) {
      for (const StageSolution& stage : *solutions) {
        const std::vector<double>& residuals = stage.solution.residuals;
        passes.residuals.insert(passes.residuals.end(), residuals.begin(), residuals.end());
        passes.residuals.push_back(stage.solution.largest_state);
        passes.outcomes.push_back(stage.solution.outcome);
      }
    }
  }
  return Status::Ok();
}

Result<PassResults> RunOn(int ranks, const WeightedChain& net, const NetworkSettings& settings,
                          const PeersOf& peers_of, const SolversOf& solvers_of) {
  ThreadRanks job(ranks);
  PassResults passes;
  Parameters gradient = ZerosLike(net.parameters);
  std::mutex mutex;
  const Status status = RunOnThreads(job, ranks, [&](Peers& peers) -> Status {
    NetworkSettings own = settings;
    if (solvers_of) own.stage_solvers = solvers_of(peers.rank());
    Parameters mine;
    UCUDNN_RETURN_IF_ERROR(RunPasses(peers_of ? peers_of(peers) : peers, net, own, passes, mine));
    const std::lock_guard lock(mutex);
    for (size_t id = 0; id < mine.size(); ++id) {
      if (!mine[id].weights.empty()) gradient[id].weights = mine[id].weights;
      if (!mine[id].bias.empty()) gradient[id].bias = mine[id].bias;
    }
    return Status::Ok();
  });
  UCUDNN_RETURN_IF_ERROR(status);
  passes.gradient = Flat(gradient);
  return passes;
}

}  // namespace ucudnn::multigrid
