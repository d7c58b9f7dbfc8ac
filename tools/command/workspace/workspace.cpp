// `ucudnn workspace`: plans Workspace Reuse (WR) and Workspace Division (WD) offline, only from
// measurements, without a device, driver or cuDNN.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "command/command.h"
#include "command/installation.h"
#include "command/layer_list.h"
#include "command/offline_kernels.h"
#include "command/offline_rows.h"
#include "command/workspace/table.h"
#include "options/options.h"
#include "planning/network_division.h"
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

// Fails if --workspace-limit is `auto`, or if --solver is given without --total-workspace.
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
  return kernel.desirable_set.front().configuration.WorkspaceBytes();
}

// Removes configurations that exceed the limit from the desirable sets. Fails if a set would become
// empty.
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
    std::erase_if(kernel.desirable_set, [&](const Division& division) {
      return division.configuration.WorkspaceBytes() > limit_bytes;
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

// The kernels that a run distinguishes. Layers with the same convolution and API are one kernel.
struct DistinctKernels {
  std::vector<planning::DesirableConfigurations> sets;
  std::vector<const Layer*> firsts;  // by kernel: its first layer
  std::vector<size_t> layers;        // by kernel: its number of layers
  std::vector<uint64_t> lanes;       // by kernel: bit l is set if one of its layers is on lane l
};

DistinctKernels DistinctOf(const OfflineKernels& network, const std::vector<size_t>& numbers) {
  DistinctKernels kernels;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const OfflineKernel& kernel = network.kernels[i];
    if (numbers[i] == kernels.sets.size()) {
      planning::DesirableConfigurations& set = kernels.sets.emplace_back();
      for (const Division& division : kernel.desirable_set) set.push_back(division.configuration);
      kernels.firsts.push_back(&kernel.layer);
      kernels.layers.push_back(0);
      kernels.lanes.push_back(0);
    }
    ++kernels.layers[numbers[i]];
    kernels.lanes[numbers[i]] |= kernel.layer.lanes;
  }
  return kernels;
}

// A division of the budget among distinct kernels.
struct Shares {
  std::vector<size_t> chosen;
  std::vector<size_t> segments;
  std::vector<size_t> copies;  // by kernel: number of copies of its segment
};

// Divides the budget among the kernels of one lane, which run one after the other.
Result<Shares> DivideOneLane(const DistinctKernels& kernels, const Options& options,
                             planning::DivisionSolver& solver, WorkspaceTable& plan) {
  const size_t budget = *options.total_workspace;
  if (const auto shortage = planning::FindShortage(kernels.sets, budget, options.division)) {
    return ShortOf(*shortage, budget, kernels.firsts);
  }
  UCUDNN_ASSIGN_OR_RETURN(
      planning::DividedWorkspace divided,
      planning::DivideWorkspace(kernels.sets, budget, options.division, solver, kernels.layers));
  plan.optimal = divided.optimal;
  plan.gap_ms = divided.gap_ms;
  plan.total_workspace_bytes = divided.total_bytes;
  Shares division{std::move(divided.chosen), {}, std::vector<size_t>(kernels.sets.size(), 1)};
  const bool disjoint = options.division == WorkspaceDivision::kDisjoint;
  for (size_t kernel = 0; kernel < kernels.sets.size(); ++kernel) {
    division.segments.push_back(disjoint ? kernel : 0);
  }
  if (disjoint) plan.shares = kernels.sets.size();
  return division;
}

// Divides the budget as a run would if the calls of each kernel were on the lanes kernels.lanes.
// `all` has a bit for each lane of any kernel. A kernel without lanes counts as on the lowest lane.
Result<Shares> DivideLanes(const DistinctKernels& kernels, uint64_t all, const Options& options,
                           planning::DivisionSolver& solver, WorkspaceTable& plan) {
  const size_t budget = *options.total_workspace;
  std::vector<planning::NetworkKernel> network;
  size_t slots = 0;
  for (size_t kernel = 0; kernel < kernels.sets.size(); ++kernel) {
    planning::NetworkKernel one{
        kernels.sets[kernel], static_cast<double>(kernels.layers[kernel]), {}};
    const uint64_t lanes = kernels.lanes[kernel] != 0 ? kernels.lanes[kernel] : all & -all;
    for (int lane = 0; lane < 64; ++lane) {
      if ((lanes >> lane & 1) != 0) one.lanes.push_back(lane);
    }
    slots += one.lanes.size();
    network.push_back(std::move(one));
  }
  if (const auto shortage = planning::FindShortage(network, budget, options.division)) {
    return ShortOf(*shortage, budget, kernels.firsts);
  }
  UCUDNN_ASSIGN_OR_RETURN(const planning::DividedNetwork divided,
                          planning::DivideNetwork(network, budget, options.division, solver));
  plan.optimal = divided.optimal;
  plan.gap_ms = divided.gap_ms;
  plan.shares = options.division == WorkspaceDivision::kDisjoint ? slots : plan.lanes;
  Shares division;
  division.chosen.resize(network.size());
  division.segments.resize(network.size());
  division.copies.resize(network.size());
  for (size_t segment = 0; segment < divided.groups.size(); ++segment) {
    const auto& group = divided.groups[segment];
    size_t bytes = 0;
    for (const size_t kernel : group.kernels) {
      const auto& choices = network[kernel].choices;
      size_t& chosen = division.chosen[kernel];
      while (chosen + 1 < choices.size() &&
             choices[chosen + 1].WorkspaceBytes() <= divided.share_bytes[kernel]) {
        ++chosen;
      }
      bytes = std::max(bytes, choices[chosen].WorkspaceBytes());
      division.segments[kernel] = segment;
      division.copies[kernel] = group.lanes;
    }
    plan.total_workspace_bytes += bytes * group.lanes;
  }
  return division;
}

// Divides the budget (WD). If the solver's plug-in is missing or fails, prints a line and uses the
// built-in solver.
Result<Shares> Divide(const CLI::App& app, const DistinctKernels& kernels, const Options& options,
                      WorkspaceTable& plan) {
  uint64_t all = 0;
  for (const uint64_t lanes : kernels.lanes) all |= lanes;
  plan.lanes = std::max<size_t>(static_cast<size_t>(std::popcount(all)), 1);
  planning::PreferredSolver solver(
      options.solver == Solver::kGlpk ? FindInstallation().glpk_solver : std::string(), "glpk",
      planning::PreferredSolver::kOffline);
  Result<Shares> divided = plan.lanes > 1 ? DivideLanes(kernels, all, options, solver, plan)
                                          : DivideOneLane(kernels, options, solver, plan);
  if (!solver.why().empty()) {
    Tell(app, "the exact solver takes the place of glpk: " + solver.why());
  }
  plan.solver = solver.Name();
  return divided;
}

// Returns the number of each layer's kernel. A call does not show its layer, so layers with the
// same convolution and API are one kernel in a run. Each of these layers gets the number of the
// first one, and a copy of the first one's element of `network`, except for the layer's name.
std::vector<size_t> NumberKernels(OfflineKernels& network) {
  std::unordered_map<ConvolutionProblem, size_t, HashOfProblem> firsts[2];  // by API
  std::vector<size_t> numbers;
  size_t next = 0;
  for (OfflineKernel& kernel : network.kernels) {
    ConvolutionProblem problem = kernel.layer.problem;
    // The alignment is that of the measurements, not that of the calls, so it is ignored.
    problem.alignment = 1;
    const bool legacy = std::string_view(kernel.api) == "legacy";
    const auto [entry, added] =
        firsts[legacy].try_emplace(problem, static_cast<size_t>(&kernel - network.kernels.data()));
    if (added) {
      numbers.push_back(next++);
      continue;
    }
    numbers.push_back(numbers[entry->second]);
    std::string name = std::move(kernel.layer.name);
    OfflineKernel& first = network.kernels[entry->second];
    first.layer.lanes |= kernel.layer.lanes;
    kernel = first;
    kernel.layer.name = std::move(name);
  }
  return numbers;
}

Result<WorkspaceTable> MakePlan(const CLI::App& app, OfflineKernels network,
                                const Options& options) {
  WorkspaceTable plan;
  plan.numbers = NumberKernels(network);
  if (options.workspace_limit) {
    UCUDNN_RETURN_IF_ERROR(KeepWithin(*options.workspace_limit, network));
  }
  const DistinctKernels kernels = DistinctOf(network, plan.numbers);
  Shares divided;
  if (options.total_workspace) {
    UCUDNN_ASSIGN_OR_RETURN(divided, Divide(app, kernels, options, plan));
  } else {
    for (const auto& set : kernels.sets) divided.chosen.push_back(set.size() - 1);
  }
  std::vector<size_t> workspaces;
  for (const size_t number : plan.numbers) {
    const size_t chosen = divided.chosen[number];
    const Configuration& configuration = kernels.sets[number][chosen];
    plan.chosen.push_back(chosen);
    plan.total_time_ms += configuration.TimeMs();
    workspaces.push_back(configuration.WorkspaceBytes());
    if (!options.total_workspace) continue;
    plan.segments.push_back(divided.segments[number]);
    plan.copies.push_back(divided.copies[number]);
  }
  if (!options.total_workspace) {
    plan.total_workspace_bytes = planning::ReservedBytes(workspaces, options.division);
  }
  plan.network = std::move(network);
  return plan;
}

Result<int> Workspace(const CLI::App& app, const WorkspaceOptions& words) {
  UCUDNN_RETURN_IF_ERROR(words.variables.Check());
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Layer> layers, ListLayers(words.source));
  words.variables.Export();
  const Options options = PlanningOptionsOf(app);
  UCUDNN_RETURN_IF_ERROR(CheckMeaning(words, options));
  UCUDNN_ASSIGN_OR_RETURN(OfflineKernels network,
                          ReadOfflineKernels(layers, options, words.device));
  if (network.differing_rows > 0) Tell(app, Disagreement(network.differing_rows));
  UCUDNN_ASSIGN_OR_RETURN(const WorkspaceTable plan, MakePlan(app, std::move(network), options));
  if (!words.plan_file.empty()) {
    const int code = WriteOutput(app, FormatWorkspacePlan(plan, options), words.plan_file);
    if (code != 0) return code;
  }
  if (words.json) {
    std::cout << FormatWorkspaceTable(plan, options);
  } else {
    PrintWorkspaceTable(plan, options, words.desirable_set);
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
  AddOption(*app, "--device", options->device, "NAME",
            "the device whose measurements are used, where the stores hold several");
  AddFlag(*app, "--desirable-set", options->desirable_set,
          "show each kernel's choices, too: none is beaten in both time and workspace");
  AddFlag(*app, "--json", options->json, "print JSON instead of a table");
  AddOption(*app, "-o", options->plan_file, "plan.json", "write the plan to a file");
  options->variables.Describe("UCUDNN_WORKSPACE_LIMIT",
                              "caller or a size: bytes, or with KiB, MiB, GiB",
                              "caller, no ceiling");
  options->variables.Describe("UCUDNN_BATCH_SIZE_POLICY", "auto, undivided, powerOfTwo, all",
                              "auto, all that were measured");
  options->variables.AddTo(
      *app, {"UCUDNN_REPORT", "UCUDNN_WORKSPACE_PLAN", "UCUDNN_ENGINES", "UCUDNN_SPATIAL"});
  return {app, [app, options](const ProgramWords&) { return Workspace(*app, *options); }};
}

}  // namespace ucudnn::command
