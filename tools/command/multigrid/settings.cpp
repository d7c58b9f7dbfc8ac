#include "command/multigrid/settings.h"

#include <sched.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "command/multigrid/free_memory.h"
#include "command/numbers.h"
#include "planner/graph/network_file.h"
#include "planner/graph/networks/families.h"
#include "planner/graph/shapes.h"
#include "planner/multigrid/data/safetensors.h"

namespace ucudnn::command {
namespace {

using multigrid::BatchNorms;
using multigrid::Problem;

constexpr char kChain[] = "chain";

int ProcessorsOfThisProcess() {
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof processors, &processors) != 0) return 1;
  return CPU_COUNT(&processors);
}

Result<planner::Graph> LoadNet(const SolveSpec& spec) {
  if (!spec.layers) return planner::LoadNetwork(spec.net);
  if (spec.net != "kirby-3m" && spec.net != "kirby-3m-nobias") {
    return Status::Error((spec.depths.empty() ? "--layers: " : "--depths: ") + Quoted(spec.net) +
                         " has the layers that it has; expected kirby-3m, which can have others");
  }
  return planner::Kirby(spec.net, {4, *spec.layers, 0, spec.net == "kirby-3m"});
}

Result<Problem> ReadChain(const SolveSpec& spec) {
  if (spec.weights.empty()) {
    return Status::Error(
        "chain: --weights FILE.safetensors is expected, with its arrays K, b and u0");
  }
  UCUDNN_ASSIGN_OR_RETURN(const multigrid::ChainWeights weights,
                          multigrid::LoadChainWeights(spec.weights));
  return multigrid::ProblemOf(weights, spec.activation);
}

// Fails if the parameters in double precision, with gradients and velocities if `trains`, exceed
// the free memory. Does not count the states of a solve.
Status CheckParameterMemory(const planner::Graph& graph, bool trains) {
  const Result<int64_t> count = planner::ParameterCount(graph);
  if (!count.ok()) return Status::Ok();  // the code that infers shapes reports the fault
  return CheckFreeMemory(
      (trains ? 3 : 1) * *count * static_cast<int64_t>(sizeof(double)),
      graph.name + ": " + std::to_string(*count) + " parameters",
      std::string(" in double precision") + (trains ? " with their gradients and velocities" : ""),
      "a machine with more, or a smaller network");
}

BatchNorms NormsOf(const SolveSpec& spec) {
  return spec.frozen_norms ? BatchNorms::kFrozen : BatchNorms::kRefused;
}

// Returns the error `refusal`. Its text names --frozen-norms if the network would be accepted with
// this option.
Status WithFrozenNorms(const planner::Graph& graph, const SolveSpec& spec, const Status& refusal) {
  const bool thaws =
      !spec.frozen_norms && multigrid::MakeResidualChain(graph, BatchNorms::kFrozen).ok();
  return Status::Error(refusal.message() + (thaws ? ": --frozen-norms" : ""));
}

void SetTime(const SolveSpec& spec, Problem& problem) {
  if (spec.time) problem.time = *spec.time;
  if (!spec.step) return;
  problem.step = *spec.step;
  problem.time = 0;
}

}  // namespace

Result<Problem> ReadProblem(const SolveSpec& spec, Drawn drawn) {
  if (spec.net == kChain) {
    UCUDNN_ASSIGN_OR_RETURN(Problem problem, ReadChain(spec));
    SetTime(spec, problem);
    return problem;
  }
  UCUDNN_ASSIGN_OR_RETURN(const planner::Graph graph, LoadNet(spec));
  if (spec.frozen_norms && multigrid::MakeResidualChain(graph, BatchNorms::kRefused).ok()) {
    return Status::Error("--frozen-norms: no residual step of " + Quoted(graph.name) +
                         " has a batch normalisation");
  }
  const bool draws = drawn == Drawn::kAll || !spec.weights.empty();
  if (draws) UCUDNN_RETURN_IF_ERROR(CheckParameterMemory(graph, spec.trains()));
  const uint64_t seed = spec.training.seed;
  Result<Problem> made = draws ? multigrid::DrawnProblem(graph, NormsOf(spec), seed)
                               : multigrid::UndrawnProblem(graph, NormsOf(spec));
  if (!made.ok()) return WithFrozenNorms(graph, spec, made.status());
  Problem problem = std::move(*made);
  if (!draws && drawn == Drawn::kImage) {
    problem.seed = seed;
    problem.input = multigrid::DrawImage(problem.chain, seed);
  }
  if (!spec.weights.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto file, multigrid::DataFile::Open(spec.weights));
    UCUDNN_ASSIGN_OR_RETURN(const auto arrays, multigrid::ReadSafetensors(file));
    UCUDNN_RETURN_IF_ERROR(multigrid::TakeWeights(arrays, spec.weights, problem));
  }
  SetTime(spec, problem);
  return problem;
}

std::string MultigridSettings::MachineText() const {
  if (device) return device->Text(*ranks);
  std::string text = "double precision on the host, ";
  if (ranks->all() > 1) text += ranks->Text() + ", each with ";
  return text + Counted(network.lanes, "thread");
}

namespace {

// Returns the coarse operator: that of --coarse, if given. Otherwise, it is the one that
// MeasureOperator finds best for the longest stage. But it is kInject if the solve runs on the CPU,
// if --analyse is given, or if there is no coarse level or no stage.
Result<multigrid::CoarseOperator> CoarseOf(const SolveSpec& spec, const Problem& problem,
                                           const MultigridSettings& settings) {
  if (spec.coarse) return *spec.coarse;
  const multigrid::NetworkSettings& network = settings.network;
  const bool has_levels = network.levels != 1 && network.method == multigrid::Method::kMultigrid;
  const multigrid::Stage* const longest = problem.chain.LongestStage();
  if (settings.RunsOnCpu() || !has_levels || spec.analyse || longest == nullptr) {
    return multigrid::CoarseOperator::kInject;
  }
  auto chosen = static_cast<double>(multigrid::CoarseOperator::kInject);
  if (settings.ranks->speaks()) {
    chosen = static_cast<double>(
        settings.device->solvers(settings.ranks->first_here())
            .MeasureOperator(problem.chain, *longest, network.batch, network.coarsening.front()));
  }
  UCUDNN_RETURN_IF_ERROR(settings.ranks->Share(chosen));
  return static_cast<multigrid::CoarseOperator>(static_cast<int>(chosen));
}

}  // namespace

Result<MultigridSettings> SettingsOf(const SolveSpec& spec, const Problem& problem,
                                     std::shared_ptr<MultigridRanks> ranks) {
  MultigridSettings settings = {.network = spec.network(), .ranks = ranks};
  multigrid::NetworkSettings& network = settings.network;
  if (*spec.on_device) {
    UCUDNN_ASSIGN_OR_RETURN(settings.device, MultigridDevice::Open(spec, *ranks));
  }
  const int threads = spec.threads.value_or(ProcessorsOfThisProcess());
  network.lanes = std::max(1, threads / ranks->on_this_host());
  network.time = problem.time;
  network.step = problem.step;
  if (!spec.IsGiven("--coarsening")) {
    // The factor is 8, or half the steps of a short longest stage, so that its second level has two
    // layers. It is never less than 2.
    const multigrid::Stage* const longest = problem.chain.LongestStage();
    const int steps = longest != nullptr ? static_cast<int>(longest->steps.size()) : 0;
    network.coarsening = {std::clamp(steps / 2, 2, 8)};
  }
  UCUDNN_ASSIGN_OR_RETURN(network.coarse, CoarseOf(spec, problem, settings));
  return settings;
}

}  // namespace ucudnn::command
