#include "planner/multigrid/host/rank_costs.h"

#include <algorithm>

#include "planner/multigrid/analysis/least_ms.h"
#include "planner/multigrid/host/measured_layers.h"

namespace ucudnn::multigrid {
namespace {

constexpr int kRounds = 10;

// Returns the count of numbers in the largest state of a mini-batch.
size_t LargestState(const ResidualChain& chain, int batch) {
  int64_t largest = 1;
  for (const Stage* stage : chain.Stages()) {
    largest = std::max(largest, stage->shape.Features() * batch);
  }
  return static_cast<size_t>(largest);
}

// Returns, on rank 0, half of the least ms in which a message of `numbers` numbers travels to rank
// 1 and back. Ranks 0 and 1 must call it.
Result<double> MessageMs(Peers& peers, size_t numbers) {
  const std::vector<double> message(numbers);
  UCUDNN_ASSIGN_OR_RETURN(const double ms, LeastMs(kRounds, [&]() -> Status {
                            if (peers.rank() == 1) {
                              UCUDNN_ASSIGN_OR_RETURN(const auto heard, peers.Receive(0));
                              return peers.Send(0, heard);
                            }
                            UCUDNN_RETURN_IF_ERROR(peers.Send(1, message));
                            return peers.Receive(1).status();
                          }));
  return ms / 2;
}

using LayersMs = std::vector<std::array<double, kLayerPasses>>;

Result<LayersMs> HostLayersMs(const ResidualChain& chain, const NetworkLayers& network) {
  UCUDNN_ASSIGN_OR_RETURN(const HostMeasurement measured, MeasureLayers(chain, network));
  LayersMs all;
  for (const MeasuredTimes::Kind& kind : measured.kinds) all.push_back(kind.ms);
  return all;
}

Result<std::vector<std::vector<double>>> StepMs(const ResidualChain& chain, int batch, bool trains,
                                                const RankMeasures& measures) {
  constexpr LayerPass kPasses[] = {LayerPass::kForward, LayerPass::kAdjoint, LayerPass::kGradient};
  const std::span<const LayerPass> passes = std::span(kPasses).first(trains ? 3 : 1);
  const NetworkLayers all = LayersOfNetwork(chain, batch, sizeof(double));
  NetworkLayers of_stages = all;
  of_stages.kinds.clear();
  std::vector<int> numbers;  // by kind: its position in of_stages.kinds, if a stage has the kind
  for (const LayerKind& kind : all.kinds) {
    numbers.push_back(static_cast<int>(of_stages.kinds.size()));
    if (all.sections[kind.section].is_stage) of_stages.kinds.push_back(kind);
  }
  UCUDNN_ASSIGN_OR_RETURN(const LayersMs measured, measures.layers
                                                       ? measures.layers(of_stages, passes)
                                                       : HostLayersMs(chain, of_stages));
  std::vector<std::vector<double>> steps(chain.sections.size());
  for (size_t at = 0; at < steps.size(); ++at) {
    if (!all.sections[at].is_stage) continue;
    for (const int kind : all.sections[at].kinds) {
      double& ms = steps[at].emplace_back(0);
      for (const LayerPass pass : passes) ms += measured[numbers[kind]][static_cast<size_t>(pass)];
    }
  }
  return steps;
}

// Returns the costs of messages, followed by the costs of all steps.
std::vector<double> Flattened(const RankCosts& costs) {
  std::vector<double> numbers = {costs.messages.message, costs.messages.state};
  for (const auto& section : costs.steps) {
    numbers.insert(numbers.end(), section.begin(), section.end());
  }
  return numbers;
}

RankCosts Unflattened(const ResidualChain& chain, const std::vector<double>& numbers) {
  RankCosts costs;
  costs.messages = {.message = numbers[0], .state = numbers[1]};
  auto next = numbers.begin() + 2;
  for (const auto& section : chain.sections) {
    const auto* stage = std::get_if<Stage>(&section);
    const auto end = next + (stage == nullptr ? 0 : static_cast<int64_t>(stage->steps.size()));
    costs.steps.emplace_back(next, end);
    next = end;
  }
  return costs;
}

}  // namespace

Result<RankCosts> MeasureRankCosts(const ResidualChain& chain, int batch, bool trains, Peers& peers,
                                   const RankMeasures& measures) {
  RankCosts costs;
  if (peers.rank() == 0) {
    UCUDNN_ASSIGN_OR_RETURN(costs.steps, StepMs(chain, batch, trains, measures));
  }
  if (peers.size() == 1) return costs;
  if (measures.messages) {
    const auto numbers = static_cast<int64_t>(LargestState(chain, batch));
    UCUDNN_ASSIGN_OR_RETURN(costs.messages, measures.messages(numbers));
  } else if (peers.rank() <= 1) {
    UCUDNN_ASSIGN_OR_RETURN(costs.messages.message, MessageMs(peers, 1));
    UCUDNN_ASSIGN_OR_RETURN(const double with_state, MessageMs(peers, LargestState(chain, batch)));
    costs.messages.state = std::max(0.0, with_state - costs.messages.message);
  }
  if (peers.rank() == 0) {
    const std::vector<double> numbers = Flattened(costs);
    for (int rank = 1; rank < peers.size(); ++rank) {
      UCUDNN_RETURN_IF_ERROR(peers.Send(rank, numbers));
    }
    return costs;
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> numbers, peers.Receive(0));
  return Unflattened(chain, numbers);
}

}  // namespace ucudnn::multigrid
