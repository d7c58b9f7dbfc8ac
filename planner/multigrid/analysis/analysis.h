// Estimates whether layer-parallel multigrid is worthwhile. For each number of devices, finds the
// setting that is fastest by modelled times (network_model.h) and by the convergence of solves.
// Thread-compatible.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/network_model.h"

namespace ucudnn::multigrid {

// The values to compare. Every combination for which the network has enough layers is a candidate.
struct AnalysisChoices {
  std::vector<std::vector<int>> coarsening = {{4}, {8}, {16}, {32}, {64}};
  std::vector<int> levels = {0, 2};
  std::vector<std::vector<int>> c_sweeps = {{0}, {1}};  // by level, as in SolveOptions
  std::vector<CoarseOperator> coarse = {CoarseOperator::kInject, CoarseOperator::kSum};
  // The members that are the same in all candidates, such as `start` and `launching`.
  MultigridSetting common = {.blocks = BlocksAtOnce::kGrouped, .launching = Launching::kCaptured};
};

// The fastest candidate on a number of devices.
struct ChosenSetting {
  MultigridSetting setting;  // with its cycles and the place of its coarse levels
  int levels = 2;            // number of levels of the longest stage
  ModelledRun run;
};

struct DevicesRow {
  int devices = 1;
  ModelledRun partitioned;
  // None if no candidate converges, or if none has enough blocks for the devices.
  std::optional<ChosenSetting> multigrid;
  // The setting of `multigrid`, launched as by Kirby et al.: one stream per block, and one launch
  // per CUDA kernel.
  std::optional<ModelledRun> launched_streams;
};

struct WorkloadAnalysis {
  Workload workload = Workload::kInference;
  ModelledRun serial;    // layer after layer on one device; one launch per CUDA kernel
  ModelledRun captured;  // layer after layer on one device, as one CUDA graph
  std::vector<DevicesRow> rows;

  // Returns the fastest serial propagation on up to `devices` devices that fits their memory, or
  // null if none fits.
  const ModelledRun* Baseline(const planner::Device& device, int devices) const;
  // Returns the row whose multigrid is fastest among those that fit the memory, or null if none
  // fits.
  const DevicesRow* Best(const planner::Device& device) const;
  // Returns the first row in which multigrid pays: it fits the memory, and the row's Baseline is
  // slower or missing. Returns null if there is no such row.
  const DevicesRow* FirstThatPays(const planner::Device& device) const;
};

// Returns the number of cycles that a setting needs, or none if the setting does not converge.
// Analyse calls it at most once for each candidate, and only if the candidate may be the fastest.
using CyclesSource = std::function<Result<std::optional<int>>(const MultigridSetting& setting)>;

// Returns the settings of `choices` for which the longest stage of `network` has enough layers. If
// two values of `levels` give the same number of levels, keeps only the first.
std::vector<MultigridSetting> CandidatesFor(const NetworkLayers& network,
                                            const AnalysisChoices& choices);

// Estimates the number of layers that `cycles` cycles of a solve apply. A coarse step that applies
// several layers counts each of them.
double LayersApplied(const MultigridSetting& setting, const Hierarchy& hierarchy, int cycles);

// Analyses each workload on each number of devices in `devices`. REQUIRES: the machine has at least
// the largest of these numbers of devices. Fails if `cycles` or the simulator fails.
Result<std::vector<WorkloadAnalysis>> Analyse(const NetworkModel& model,
                                              const AnalysisChoices& choices,
                                              const std::vector<int>& devices,
                                              const CyclesSource& cycles);

}  // namespace ucudnn::multigrid
