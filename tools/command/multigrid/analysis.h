// `ucudnn multigrid --analyse`: models whether layer-parallel multigrid is worthwhile on a machine,
// which need not be the machine that runs the command. Layer times are modelled or measured. The
// command solves small networks to estimate how residuals fall. Used from main's thread only.
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

// A setting whose convergence was estimated.
struct TriedSetting {
  multigrid::MultigridSetting setting;
  int levels = 2;
  multigrid::ConvergenceEstimate estimate;
  std::optional<int> cycles;  // unset if it does not converge within the permitted cycles
};

struct NetworkAnalysis {
  ProblemFacts facts;
  int64_t parameters = 0;
  MultigridSettings settings;
  multigrid::NetworkLayers layers;
  planner::Machine machine;
  // Modelled times, which `times` uses for layers that no device measured. Null if no layer was
  // measured on a device.
  std::unique_ptr<multigrid::LayerTimes> modelled;
  std::unique_ptr<multigrid::LayerTimes> times;
  std::string measured_on;  // the device that measured the stages' layers; empty if none did
  // Whether layer times are CPU times of this machine. Otherwise they are modelled by a roofline or
  // measured on a device.
  bool is_measured = false;
  std::string measurement_notes;  // which layers were measured only in part

  double tolerance = 0;
  // `tolerance` is the residual of this setting after its cycles. Unset if the user gave the
  // tolerance.
  std::optional<TriedSetting> reference;
  // How the reduced network, on which residuals were estimated, differs from the longest stage.
  // Empty if residuals were estimated on that stage itself.
  std::string reduction;
  std::vector<TriedSetting> tried;
  // The fastest setting, with residuals of the network itself. Unset if the network itself was not
  // solved: it is too large for that, `reduction` is empty, or no setting is usable.
  std::optional<TriedSetting> verified;

  std::vector<multigrid::WorkloadAnalysis> workloads;
};

// Prints the analysis, and says that every time of a solve is modelled.
void PrintAnalysis(const NetworkAnalysis& analysis);
// Writes the format ucudnn-multigrid-analysis, described in planner/multigrid/analysis/FORMAT.md.
std::string FormatAnalysis(const NetworkAnalysis& analysis);

Result<int> AnalyseMultigrid(const CLI::App& app, const SolveSpec& spec);

}  // namespace ucudnn::command
