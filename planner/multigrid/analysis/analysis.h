// Will layer-parallel multigrid pay? For numbers of devices the fastest setting, by models of time
// (network_model.h) and by how fast solves converge. Thread-compatible.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/analysis/network_model.h"

namespace ucudnn::multigrid {

// What is asked: every combination that the layers allow is a candidate.
struct AnalysisChoices {
  std::vector<std::vector<int>> coarsening = {{4}, {8}, {16}, {32}, {64}};
  std::vector<int> levels = {0, 2};
  std::vector<int> c_sweeps = {0, 1};
  std::vector<CoarseOperator> coarse = {CoarseOperator::kInject, CoarseOperator::kSum};
  Start start = Start::kBroadcast;
  bool measures_residuals = false;
  // The ways of running that are compared.
  BlocksAtOnce blocks = BlocksAtOnce::kGrouped;
  Launching launching = Launching::kCaptured;
};

// A candidate at its fastest on so many devices.
struct ChosenSetting {
  MultigridSetting setting;  // with its plan, cycles included
  int levels = 2;            // of the longest stage
  ModelledRun run;
};

struct DevicesRow {
  int devices = 1;
  ModelledRun partitioned;
  // None where no candidate converges, or has blocks for so many devices.
  std::optional<ChosenSetting> multigrid;
  // The same setting as the paper runs it: a stream for each block, every kernel launched.
  std::optional<ModelledRun> launched_streams;
};

struct WorkloadAnalysis {
  Workload workload = Workload::kInference;
  ModelledRun serial;    // on one device, each kernel launched
  ModelledRun captured;  // the same as one CUDA graph
  std::vector<DevicesRow> rows;

  // The fastest serial propagation on up to `devices` devices that fits their memory; null where
  // none does.
  const ModelledRun* Baseline(const planner::Device& device, int devices) const;
  // The row whose multigrid fits and is fastest; null where there is none.
  const DevicesRow* Best(const planner::Device& device) const;
  // The first row whose multigrid fits and is faster than its baseline; null where none is.
  const DevicesRow* FirstThatPays(const planner::Device& device) const;
};

// How many cycles a setting needs; none where it does not converge. Asked once of each candidate
// that might be the fastest.
using CyclesSource = std::function<Result<std::optional<int>>(const MultigridSetting& setting)>;

// All settings of `choices` that `network`'s longest stage has layers enough for, without those
// whose levels another has.
std::vector<MultigridSetting> CandidatesFor(const NetworkLayers& network,
                                            const AnalysisChoices& choices);

// How many layers a solve of `steps` layers applies in so many cycles, those of coarse steps that
// apply several counted each; about.
double LayersApplied(const MultigridSetting& setting, const Hierarchy& hierarchy, int cycles);

// One for each workload. `devices` are numbers of devices, each at most the machine's. Errors are
// those of `cycles` and of the simulator.
Result<std::vector<WorkloadAnalysis>> Analyse(const NetworkModel& model,
                                              const AnalysisChoices& choices,
                                              const std::vector<int>& devices,
                                              const CyclesSource& cycles);

}  // namespace ucudnn::multigrid
