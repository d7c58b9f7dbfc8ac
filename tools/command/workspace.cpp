// `ucudnn workspace`: Workspace Reuse and Workspace Division planned offline, from measurements
// alone: no device, driver or cuDNN is looked for.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/options.h"
#include "command/command.h"
#include "command/installation.h"
#include "command/layer_list.h"
#include "command/offline_kernels.h"
#include "command/offline_rows.h"
#include "command/output_file.h"
#include "command/workspace_plan.h"
#include "planning/preferred_solver.h"
#include "planning/workspace_division.h"

namespace ucudnn::command {
namespace {

struct WorkspaceOptions {
  LayerSource source;
  std::string device;
  std::string plan_file;
  bool desirable_set = false;
  bool json = false;
  VariableOptions variables;
};

// Options that contradict each other or mean nothing offline.
Status CheckMeaning(const WorkspaceOptions& words, const Options& options) {
  if (options.workspace_limit_auto) {
    return Status::Error(
        "--workspace-limit 'auto': comes from a device's free memory, and there is none offline "
        "(accepted: caller or a size)");
  }
  if (!options.total_workspace && words.variables.Given("UCUDNN_SOLVER")) {
    return Status::Error(
        "--solver: solves the division of --total-workspace SIZE, which is missing");
  }
  return Status::Ok();
}

size_t LeastBytes(const OfflineKernel& kernel) {
  return kernel.desirable_set.front().WorkspaceBytes();
}

// Takes what exceeds the limit out of the desirable sets.
Status KeepWithin(size_t limit_bytes, OfflineKernels& network) {
  std::vector<const Layer*> over;
  size_t least_limit = 0;
  for (OfflineKernel& kernel : network.kernels) {
    if (LeastBytes(kernel) > limit_bytes) {
      over.push_back(&kernel.layer);
      least_limit = std::max(least_limit, LeastBytes(kernel));
    }
  }
  if (!over.empty()) {
    return Status::Error("--workspace-limit '" + FormatByteSize(limit_bytes) +
                         "': too little for " + KernelNames(over) + "; " +
                         std::to_string(least_limit) + " bytes are enough");
  }
  for (OfflineKernel& kernel : network.kernels) {
    std::erase_if(kernel.desirable_set, [&](const Configuration& configuration) {
      return configuration.WorkspaceBytes() > limit_bytes;
    });
  }
  return Status::Ok();
}

Status ShortOf(const planning::Shortage& shortage, size_t budget_bytes,
               const std::vector<const Layer*>& firsts) {
  std::vector<const Layer*> layers;
  for (const size_t kernel : shortage.kernels) layers.push_back(firsts[kernel]);
  return Status::Error("--total-workspace '" + FormatByteSize(budget_bytes) +
                       "': " + std::to_string(shortage.missing_bytes) + " bytes are missing, for " +
                       KernelNames(layers));
}

// WD. A plug-in that is missing or fails costs a line, and the built-in solver takes its place.
Result<planning::DividedWorkspace> Divide(
    const CLI::App& app, const std::vector<planning::DesirableConfigurations>& sets,
    const std::vector<size_t>& layers, const Options& options, std::string& name) {
  planning::PreferredSolver solver(
      options.solver == Solver::kGlpk ? FindInstallation().glpk_solver : std::string(), "glpk",
      planning::PreferredSolver::kOffline);
  Result<planning::DividedWorkspace> divided =
      planning::DivideWorkspace(sets, *options.total_workspace, options.division, solver, layers);
  if (!solver.why().empty()) {
    Refuse(app, "the exact solver takes the place of glpk: " + solver.why());
  }
  name = solver.Name();
  return divided;
}

// Numbers the kernels by first appearance. A call does not tell its layer, so that layers of one
// shape run as one kernel; each is planned as the first of them.
std::vector<size_t> NumberKernels(OfflineKernels& network) {
  std::unordered_map<ConvolutionProblem, size_t, HashOfProblem> firsts[2];  // by API
  std::vector<size_t> numbers;
  size_t next = 0;
  for (OfflineKernel& kernel : network.kernels) {
    ConvolutionProblem problem = kernel.layer.problem;
    problem.alignment = 1;  // of what was measured, not of the calls
    const bool legacy = std::string_view(kernel.api) == "legacy";
    const auto [entry, added] =
        firsts[legacy].try_emplace(problem, static_cast<size_t>(&kernel - network.kernels.data()));
    if (added) {
      numbers.push_back(next++);
      continue;
    }
    numbers.push_back(numbers[entry->second]);
    std::string name = std::move(kernel.layer.name);
    kernel = network.kernels[entry->second];
    kernel.layer.name = std::move(name);
  }
  return numbers;
}

Result<WorkspacePlan> MakePlan(const CLI::App& app, OfflineKernels network,
                               const Options& options) {
  WorkspacePlan plan;
  plan.numbers = NumberKernels(network);
  if (options.workspace_limit) {
    UCUDNN_RETURN_IF_ERROR(KeepWithin(*options.workspace_limit, network));
  }
  // Of every kernel, its set, its first layer, and how many there are.
  std::vector<planning::DesirableConfigurations> sets;
  std::vector<const Layer*> firsts;
  std::vector<size_t> layers;
  for (size_t i = 0; i < network.kernels.size(); ++i) {
    if (plan.numbers[i] == sets.size()) {
      sets.push_back(network.kernels[i].desirable_set);
      firsts.push_back(&network.kernels[i].layer);
      layers.push_back(0);
    }
    ++layers[plan.numbers[i]];
  }
  std::vector<size_t> chosen;
  if (options.total_workspace) {
    const size_t budget = *options.total_workspace;
    if (const auto shortage = planning::FindShortage(sets, budget, options.division)) {
      return ShortOf(*shortage, budget, firsts);
    }
    UCUDNN_ASSIGN_OR_RETURN(planning::DividedWorkspace divided,
                            Divide(app, sets, layers, options, plan.solver));
    chosen = std::move(divided.chosen);
    plan.optimal = divided.optimal;
    plan.gap_ms = divided.gap_ms;
    plan.total_workspace_bytes = divided.total_bytes;
  } else {
    for (const auto& set : sets) chosen.push_back(set.size() - 1);
  }
  std::vector<size_t> workspaces;
  for (const size_t number : plan.numbers) {
    const Configuration& configuration = sets[number][chosen[number]];
    plan.chosen.push_back(chosen[number]);
    plan.total_time_ms += configuration.TimeMs();
    workspaces.push_back(configuration.WorkspaceBytes());
  }
  if (!options.total_workspace) {
    plan.total_workspace_bytes = planning::ReservedBytes(workspaces, options.division);
  }
  plan.network = std::move(network);
  return plan;
}

int Workspace(const CLI::App& app, const WorkspaceOptions& words) {
  const auto refuse = [&](const Status& status) { return Refuse(app, status.message()); };
  if (Status status = words.variables.Check(); !status.ok()) return refuse(status);
  const Result<std::vector<Layer>> layers = ListLayers(words.source);
  if (!layers.ok()) return refuse(layers.status());
  words.variables.Export();
  std::vector<std::string> warnings;
  const Options options =
      ParseOptions([](const char* name) { return std::getenv(name); }, warnings, Use::kPlanning);
  for (const std::string& warning : warnings) Refuse(app, warning);
  if (Status status = CheckMeaning(words, options); !status.ok()) return refuse(status);
  Result<OfflineKernels> network = ReadOfflineKernels(*layers, options, words.device);
  if (!network.ok()) return refuse(network.status());
  if (network->differing_rows > 0) Refuse(app, Disagreement(network->differing_rows));
  const Result<WorkspacePlan> plan = MakePlan(app, std::move(*network), options);
  if (!plan.ok()) return refuse(plan.status());
  if (!words.plan_file.empty()) {
    const int code = WriteOutput(app, JsonText(PinnedPlanJson(*plan, options)), words.plan_file);
    if (code != 0) return code;
  }
  if (words.json) {
    std::cout << JsonText(WorkspaceJson(*plan, options));
  } else {
    PrintWorkspaceTable(*plan, options, words.desirable_set);
  }
  return 0;
}

}  // namespace

Command AddWorkspace(CLI::App& ucudnn) {
  auto options = std::make_shared<WorkspaceOptions>();
  CLI::App* app = AddSubcommand(
      ucudnn, "workspace",
      "workspace (--layers FILE.csv | --net NAME --batch N | --trace FILE.json) [OPTIONS]",
      "plan each kernel's workspace, or one for all, from measurements alone");
  options->source.AddTo(*app);
  app->add_option("--device", options->device,
                  "whose measurements, where the stores hold several devices'")
      ->type_name("NAME");
  app->add_flag("--desirable-set", options->desirable_set,
                "show each kernel's choices, too: none is beaten in both time and workspace")
      ->disable_flag_override();
  app->add_flag("--json", options->json, "print JSON instead of a table")->disable_flag_override();
  app->add_option("-o", options->plan_file, "write the plan to a file")->type_name("plan.json");
  options->variables.Describe("UCUDNN_WORKSPACE_LIMIT",
                              "caller or a size: bytes, or with KiB, MiB, GiB",
                              "caller, no ceiling");
  options->variables.Describe("UCUDNN_BATCH_SIZE_POLICY", "auto, undivided, powerOfTwo, all",
                              "auto, all that were measured");
  options->variables.AddTo(*app, {"UCUDNN_REPORT", "UCUDNN_PLAN", "UCUDNN_ENGINES"});
  return {app, [app, options](const ProgramWords&) { return Workspace(*app, *options); }};
}

}  // namespace ucudnn::command
