#include "planner/multigrid/host/rate_probe.h"

#include <cmath>
#include <unordered_map>

#include "planner/multigrid/problem.h"

namespace ucudnn::multigrid {
namespace {

// Returns parameters for the nodes of `reduced`, copied from the nodes of `chain` that have the
// same names.
Parameters CopiedParameters(const ResidualChain& chain, const Parameters& parameters,
                            const ResidualChain& reduced) {
  std::unordered_map<std::string, size_t> ids;
  for (size_t id = 0; id < chain.graph.nodes.size(); ++id) ids[chain.graph.nodes[id].name] = id;
  Parameters copied(reduced.graph.nodes.size());
  for (size_t id = 0; id < copied.size(); ++id) {
    const auto found = ids.find(reduced.graph.nodes[id].name);
    if (found != ids.end()) copied[id] = parameters[found->second];
  }
  return copied;
}

}  // namespace

Result<std::unique_ptr<RateProbe>> RateProbe::Make(const ResidualChain& chain, const Stage& stage,
                                                   const Parameters* parameters,
                                                   const ProbeSettings& settings) {
  UCUDNN_ASSIGN_OR_RETURN(
      ReducedNetwork reduced,
      MakeReducedNetwork(chain, stage, parameters == nullptr, settings.operations));
  std::unique_ptr<RateProbe> probe(new RateProbe(std::move(reduced), settings));
  const ResidualChain& reduced_chain = probe->reduced_.chain;
  probe->parameters_ = parameters == nullptr ? DrawParameters(reduced_chain, settings.seed)
                                             : CopiedParameters(chain, *parameters, reduced_chain);
  probe->state_ = DrawImage(reduced_chain, settings.seed);
  return probe;
}

Result<ConvergenceEstimate> RateProbe::Estimate(const MultigridSetting& setting) {
  NetworkSettings network_settings;
  network_settings.lanes = settings_.lanes;
  network_settings.step = settings_.h * reduced_.h_factor;
  network_settings.coarsening = setting.coarsening;
  network_settings.levels = setting.levels;
  network_settings.coarse = setting.coarse;
  network_settings.storage = setting.storage;
  network_settings.forward.c_sweeps = setting.c_sweeps;
  network_settings.forward.skips_first_down = setting.skips_first_down;
  network_settings.forward.start = setting.start;
  network_settings.forward.scale = settings_.scale;
  network_settings.forward.cycles = 2;
  // A reduced network may have too few layers for the requested number of levels.
  const int steps = reduced_.chain.StepCount();
  if (!Hierarchy::Make(steps, setting.coarsening, setting.levels).ok()) network_settings.levels = 0;
  UCUDNN_ASSIGN_OR_RETURN(const auto network,
                          NetworkSolver::Make(reduced_.chain, parameters_, network_settings));
  UCUDNN_RETURN_IF_ERROR(network->Forward(state_.data()).status());
  UCUDNN_ASSIGN_OR_RETURN(
      const Hierarchy hierarchy,
      Hierarchy::Make(reduced_.stage_steps, setting.coarsening, setting.levels));
  ConvergenceEstimate estimate =
      EstimateOf(network->forward_solutions().front().solution,
                 CyclesOfDirectSolve(hierarchy.level(0), network_settings.forward));
  if (settings_.scale == ResidualScale::kAbsolute) {
    estimate.first *= std::sqrt(reduced_.state_factor);
    estimate.second *= std::sqrt(reduced_.state_factor);
  }
  return estimate;
}

}  // namespace ucudnn::multigrid
