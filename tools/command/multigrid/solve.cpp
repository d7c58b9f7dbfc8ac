#include "command/multigrid/solve.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "command/multigrid/free_memory.h"
#include "command/numbers.h"
#include "command/progress.h"
#include "planner/multigrid/host/rank_costs.h"

namespace ucudnn::command {
namespace {

using multigrid::NetworkSolver;
using multigrid::Problem;

// Returns `batch` copies of the problem's image.
std::vector<double> Repeated(const std::vector<double>& image, int batch) {
  std::vector<double> images;
  for (int i = 0; i < batch; ++i) images.insert(images.end(), image.begin(), image.end());
  return images;
}

struct Pass {
  std::unique_ptr<NetworkSolver> network;
  std::vector<double> logits;  // only on the rank that has them
  double seconds = 0;
};

Result<Pass> RunForward(const Problem& problem, const multigrid::Parameters& parameters,
                        const multigrid::NetworkSettings& settings,
                        const std::vector<double>& images) {
  Pass pass;
  UCUDNN_ASSIGN_OR_RETURN(pass.network, NetworkSolver::Make(problem.chain, parameters, settings));
  multigrid::Peers& peers = pass.network->peers();
  const Stopwatch stopwatch;
  UCUDNN_ASSIGN_OR_RETURN(const double* logits, pass.network->Forward(images.data()));
  if (logits != nullptr) {
    pass.logits.assign(logits, logits + pass.network->output_size() * settings.batch);
  }
  if (peers.size() > 1) {  // waits until all ranks have finished their parts
    UCUDNN_RETURN_IF_ERROR(multigrid::GatherNumbers(peers, peers.size(), {}).status());
  }
  pass.seconds = stopwatch.Seconds();
  return pass;
}

double RelativeError(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, reference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    reference += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / reference);
}

std::string CycleText(int cycle, double residual, const multigrid::SolveOptions& options) {
  std::string text = "cycle " + std::to_string(cycle) +
                     (options.tolerance ? " of at most " : " of ") + std::to_string(options.cycles);
  return std::isnan(residual) ? text : text + NumberText(": residual %.2e", residual);
}

// Fails if this machine has too little memory for the parameters and states of its ranks.
Status CheckRankMemory(const Problem& problem, const multigrid::Placement& placement,
                       const MultigridSettings& settings, multigrid::Passes passes) {
  // On devices, allocations fail with an error of their own if memory is missing.
  if (settings.device) return Status::Ok();
  const MultigridRanks& ranks = *settings.ranks;
  // The ranks of a single replica use the parameters of this process; several replicas copy them.
  const int existing = problem.parameters.empty() || ranks.replicas() > 1 ? 0 : 1;
  int64_t all = 0;
  int64_t most = 0;
  for (int rank = 0; rank < ranks.devices(); ++rank) {
    const int64_t bytes = RankBytes(problem, placement, settings.network, rank, passes, existing);
    all += bytes;
    most = std::max(most, bytes);
  }
  // If some ranks are on other machines, each rank here counts with the bytes of the rank that
  // needs most.
  const bool are_all_here = ranks.on_this_host() == ranks.all();
  const int64_t here = are_all_here ? all * ranks.replicas() : most * ranks.on_this_host();
  return CheckFreeMemory(
      here,
      "layers and states of " + std::to_string(ranks.on_this_host()) + " devices on this machine",
      "", "devices on more machines, a smaller --batch, or --storage c-points");
}

}  // namespace

Status CheckStateMemory(const Problem& problem, const multigrid::NetworkSettings& settings,
                        multigrid::Passes passes) {
  return CheckFreeMemory(StateBytes(problem.chain, settings, passes),
                         "the states of a mini-batch of " + Counted(settings.batch, "image"), "",
                         "a smaller --batch, or --storage c-points");
}

Result<multigrid::Placement> PlaceOnRanks(const Problem& problem, const MultigridSettings& settings,
                                          multigrid::Passes passes, multigrid::Peers& all,
                                          multigrid::NetworkSettings& network) {
  // This placement, before anything is measured, fails early if no placement is possible.
  UCUDNN_ASSIGN_OR_RETURN(multigrid::Placement placement,
                          PlaceNetwork(problem.chain, network, settings.ranks->devices()));
  UCUDNN_RETURN_IF_ERROR(CheckRankMemory(problem, placement, settings, passes));
  multigrid::RankMeasures measures;
  if (settings.device) {
    const multigrid::DeviceSolvers& solvers = settings.device->solvers(all.rank());
    measures.layers = [&](const multigrid::NetworkLayers& layers,
                          std::span<const multigrid::LayerPass> timed)
        -> Result<std::vector<std::array<double, multigrid::kLayerPasses>>> {
      UCUDNN_ASSIGN_OR_RETURN(
          const auto kinds, multigrid::MeasureDeviceLayers(solvers.target(), problem.chain, layers,
                                                           multigrid::StepsAtOnce::kOne, timed,
                                                           solvers.setting().workspace_limit));
      std::vector<std::array<double, multigrid::kLayerPasses>> ms;
      for (const auto& kind : kinds) ms.push_back(kind.ms);
      return ms;
    };
    measures.messages = [&](int64_t numbers) {
      return multigrid::MeasureDeviceMessages(solvers.target(), all, solvers.setting().transport,
                                              numbers);
    };
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const multigrid::RankCosts costs,
      multigrid::MeasureRankCosts(problem.chain, network.batch,
                                  passes == multigrid::Passes::kForwardAndBackward, all, measures));
  network.step_costs = costs.steps;
  network.messages = costs.messages;
  UCUDNN_ASSIGN_OR_RETURN(placement,
                          PlaceNetwork(problem.chain, network, settings.ranks->devices()));
  UCUDNN_RETURN_IF_ERROR(CheckRankMemory(problem, placement, settings, passes));
  return placement;
}

namespace {

// Solves as one rank, together with the other ranks of `all`. Rank 0 fills `solved`.
Status SolveOnRank(Problem& problem, const MultigridSettings& settings, bool checks,
                   multigrid::Peers& all, SolvedNetwork& solved) {
  multigrid::NetworkSettings network = settings.network;
  network.forward.measures_start = true;
  if (settings.device) network.stage_solvers = &settings.device->solvers(all.rank());
  const bool speaks = all.rank() == 0 && settings.ranks->speaks();
  std::optional<MultigridProgress> progress;
  const auto show = [&](const std::string& text) {
    if (progress) progress->Show(text);
  };
  if (speaks) progress.emplace();
  show("solving");
  if (speaks) {
    network.forward.watch = [&](int cycle, double residual) {
      show(CycleText(cycle, residual, network.forward));
    };
  }
  multigrid::Parameters own;
  const multigrid::Parameters* parameters = &problem.parameters;
  multigrid::Placement placement;
  if (all.size() > 1) {
    network.peers = &all;
    UCUDNN_ASSIGN_OR_RETURN(
        placement, PlaceOnRanks(problem, settings, multigrid::Passes::kForward, all, network));
    own = TakeParameters(all.rank(), placement, false, problem);
    // What is left in problem.parameters belongs to ranks of other processes.
    if (settings.ranks->are_processes()) problem.parameters = {};
    parameters = &own;
  }
  const std::vector<double> images = Repeated(problem.input, network.batch);
  UCUDNN_ASSIGN_OR_RETURN(const Pass pass, RunForward(problem, *parameters, network, images));
  if (speaks) {
    solved.stages = pass.network->forward_solutions();
    solved.seconds = pass.seconds;
    solved.machine = settings.MachineText();
    solved.placement = placement;
  }
  if (!checks) return Status::Ok();
  network.method = multigrid::Method::kPartitioned;
  show("serial propagation, to compare with");
  UCUDNN_ASSIGN_OR_RETURN(const Pass serial, RunForward(problem, *parameters, network, images));
  double error = RelativeError(pass.logits, serial.logits);
  UCUDNN_RETURN_IF_ERROR(ShareNumber(all, serial.network->logits_rank(), error));
  if (!speaks) return Status::Ok();
  solved.serial_seconds = serial.seconds;
  solved.output_error = error;
  return Status::Ok();
}

}  // namespace

Result<SolvedNetwork> SolveOnce(Problem& problem, const MultigridSettings& settings, bool checks) {
  SolvedNetwork solved = {.facts = FactsOf(problem, settings.network), .settings = settings};
  if (settings.ranks->all() == 1 && !settings.device) {
    const auto passes = multigrid::Passes::kForward;
    UCUDNN_RETURN_IF_ERROR(CheckStateMemory(problem, settings.network, passes));
    solved.facts.state_bytes = StateBytes(problem.chain, settings.network, passes);
  }
  UCUDNN_RETURN_IF_ERROR(settings.ranks->Run(
      [&](multigrid::Peers& all) { return SolveOnRank(problem, settings, checks, all, solved); }));
  return solved;
}

}  // namespace ucudnn::command
