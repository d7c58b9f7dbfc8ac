// `ucudnn multigrid --analyse`: says whether layer-parallel multigrid pays on a machine, without
// running there. For use from main's thread only.
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
  std::optional<int> cycles;  // none: it does not converge, or not in the allowed cycles
};

struct NetworkAnalysis {
  ProblemFacts facts;
  int64_t parameters = 0;
  MultigridSettings settings;
  multigrid::NetworkLayers layers;
  planner::Machine machine;
  std::unique_ptr<multigrid::LayerTimes> modelled;  // if a device measured the other times
  std::unique_ptr<multigrid::LayerTimes> times;
  std::string measured_on;  // the device that measured the stages' layers; empty if none did
  // Layer times are CPU times of this machine; else they come from a roofline.
  bool is_measured = false;
  std::string measurement_notes;  // what was not measured as it runs

  double tolerance = 0;
  // The setting whose residual after its cycles is the tolerance; none if the user gave the
  // tolerance.
  std::optional<TriedSetting> reference;
  // How the network of the estimates differs from the longest stage; empty: it does not.
  std::string stand_in;
  std::vector<TriedSetting> tried;
  // The fastest setting's residuals on the network itself, if that takes a few seconds.
  std::optional<TriedSetting> verified;

  std::vector<multigrid::WorkloadAnalysis> workloads;
};

// Prints the analysis. It says that every time of a solve is modelled.
void PrintAnalysis(const NetworkAnalysis& analysis);
// Writes the format ucudnn-multigrid-analysis, described in planner/multigrid/FORMAT.md.
std::string FormatAnalysis(const NetworkAnalysis& analysis);

Result<int> AnalyseMultigrid(const CLI::App& app, const SolveSpec& spec);

}  // namespace ucudnn::command
