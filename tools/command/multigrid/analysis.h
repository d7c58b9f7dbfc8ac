// `ucudnn multigrid --analyse`: whether layer-parallel multigrid pays on a machine, without running
// there. Used from main's thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "command/command.h"
#include "command/multigrid/facts.h"
#include "command/multigrid/settings.h"
#include "planner/machine/machine.h"
#include "planner/multigrid/analysis/analysis.h"
#include "planner/multigrid/analysis/convergence.h"

namespace ucudnn::command {

// A setting whose rate was estimated.
struct TriedSetting {
  multigrid::MultigridSetting setting;
  int levels = 2;
  multigrid::ConvergenceEstimate estimate;
  std::optional<int> cycles;  // none: it does not converge, or not in the cycles allowed
};

struct NetworkAnalysis {
  ProblemFacts facts;
  int64_t parameters = 0;
  MultigridSettings settings;
  multigrid::NetworkLayers layers;
  planner::Machine machine;
  std::unique_ptr<multigrid::LayerTimes> modelled;  // where a device measured the others
  std::unique_ptr<multigrid::LayerTimes> times;
  std::string measured_on;        // the device that measured the stages' layers; empty: none did
  bool is_measured = false;       // times of layers are CPU times of this machine; else a roofline
  std::string measurement_notes;  // what of them was not measured as it is

  double tolerance = 0;
  // Whose residual the tolerance is, after so many cycles; none where the user gave it.
  std::optional<TriedSetting> reference;
  std::string stand_in;  // how what converged differs from the longest stage; empty: it does not
  std::vector<TriedSetting> tried;
  // The fastest setting's residuals on the network itself, where that takes a few seconds.
  std::optional<TriedSetting> verified;

  std::vector<multigrid::WorkloadAnalysis> workloads;
};

// Every time of a solve is modelled, and says so.
void PrintAnalysis(const NetworkAnalysis& analysis);
// Format ucudnn-multigrid-analysis, described in planner/multigrid/FORMAT.md.
std::string FormatAnalysis(const NetworkAnalysis& analysis);

Result<int> AnalyseMultigrid(const CLI::App& app, const SolveSpec& spec);

}  // namespace ucudnn::command
