#include "command/workspace/table.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string_view>

#include "base/byte_size.h"
#include "base/json_members.h"
#include "command/numbers.h"
#include "command/text_table.h"
#include "convolution/division_text.h"
#include "convolution/report_format.h"
#include "planning/workspace_plan.h"

namespace ucudnn::command {
namespace {

// Returns the fastest engine for the whole mini-batch within the limit. Returns an empty
// MicroConfiguration if no engine fits.
MicroConfiguration FastestUndivided(const OfflineKernel& kernel,
                                    const std::optional<size_t>& limit_bytes) {
  MicroConfiguration fastest;
  for (const MicroConfiguration& engine : kernel.undivided) {
    if (!limit_bytes || engine.workspace_bytes <= *limit_bytes) fastest = engine;
  }
  return fastest;
}

const TextColumns kColumns = {
    {"layer", -20, 0}, {"operation", -16}, {"ms", 12}, {"workspace", -12, 2}, {"micro-batches"}};

void PrintDivision(const std::string& layer, const char* operation, const Division& division) {
  PrintRow(kColumns,
           {layer.substr(0, 20), operation, NumberText("%.4g", division.configuration.TimeMs()),
            FormatByteSize(division.configuration.WorkspaceBytes()), DivisionText(division)});
}

}  // namespace

std::optional<size_t> UndividedLimit(const WorkspaceTable& plan, const Options& options) {
  if (!options.total_workspace) return options.workspace_limit;
  const size_t limit_bytes = *options.total_workspace / plan.shares;
  return std::min(limit_bytes, options.workspace_limit.value_or(limit_bytes));
}

std::string FormatWorkspaceTable(const WorkspaceTable& plan, const Options& options) {
  const planning::Platform& platform = plan.network.platform;
  RunReport told;
  told.offline = true;
  told.device = platform.device;
  told.cudnn = platform.cudnn;
  told.driver = platform.driver;
  told.policy = BatchSizePolicyName(options.policy);
  told.limit_bytes = options.workspace_limit;
  told.undivided_limit_bytes = UndividedLimit(plan, options);
  told.budget.total_bytes = options.total_workspace;
  told.budget.division = WorkspaceDivisionName(options.division);
  told.budget.solver = plan.solver;
  told.budget.optimal = plan.optimal;
  told.gap_ms = plan.gap_ms;
  told.total_time_ms = plan.total_time_ms;
  told.budget.total_workspace_bytes = plan.total_workspace_bytes;
  for (size_t i = 0; i < plan.chosen.size(); ++i) {
    const OfflineKernel& kernel = plan.network.kernels[i];
    ReportedKernel& one = told.kernels.emplace_back();
    one.name = kernel.layer.name;
    one.problem = kernel.layer.problem;
    one.api = kernel.api;
    one.best_undivided = FastestUndivided(kernel, told.undivided_limit_bytes);
    one.division = kernel.desirable_set[plan.chosen[i]];
    one.desirable_set = kernel.desirable_set;
    if (!options.total_workspace) continue;
    one.segment = static_cast<int64_t>(plan.segments[i]);
    one.copies = static_cast<int64_t>(plan.copies[i]);
  }
  return json::Write(told, 0) + "\n";
}

std::string FormatWorkspacePlan(const WorkspaceTable& plan, const Options& options) {
  planning::WorkspacePlan told;
  told.cudnn = plan.network.platform.cudnn;
  told.device = plan.network.platform.device;
  told.total_bytes = options.total_workspace;
  told.limit_bytes = options.workspace_limit;
  told.division = options.division;
  for (size_t i = 0; i < plan.chosen.size(); ++i) {
    const OfflineKernel& kernel = plan.network.kernels[i];
    planning::WorkspacePlanKernel& one = told.kernels.emplace_back();
    one.problem = kernel.layer.problem;
    one.api = std::string_view(kernel.api) == "legacy" ? Api::kLegacy : Api::kGraph;
    one.configuration = kernel.desirable_set[plan.chosen[i]].configuration;
    if (!options.total_workspace) continue;
    one.segment = static_cast<int>(plan.segments[i]);
    one.lanes = plan.copies[i];
  }
  return json::Write(told, 0) + "\n";
}

void PrintWorkspaceTable(const WorkspaceTable& plan, const Options& options, bool desirable_sets) {
  const planning::Platform& platform = plan.network.platform;
  std::cout << platform.device;
  if (platform.cudnn != 0) {
    std::cout << ", cuDNN " << CudnnVersion(static_cast<size_t>(platform.cudnn));
  }
  std::cout << ", policy " << BatchSizePolicyName(options.policy) << ", workspace limit "
            << (options.workspace_limit ? FormatByteSize(*options.workspace_limit) : "none");
  if (options.total_workspace) {
    std::cout << ", " << FormatByteSize(*options.total_workspace) << " for all, "
              << WorkspaceDivisionName(options.division);
    if (plan.lanes > 1) std::cout << " on " << plan.lanes << " lanes";
    std::cout << ", solver " << plan.solver;
  }
  std::cout << "\n" << std::flush;
  PrintHead(kColumns);
  for (size_t i = 0; i < plan.chosen.size(); ++i) {
    const OfflineKernel& kernel = plan.network.kernels[i];
    PrintDivision(kernel.layer.name, OperationName(kernel.layer.problem.operation),
                  kernel.desirable_set[plan.chosen[i]]);
    if (!desirable_sets) continue;
    for (size_t one = 0; one < kernel.desirable_set.size(); ++one) {
      PrintDivision("", one == plan.chosen[i] ? "> desirable" : "  desirable",
                    kernel.desirable_set[one]);
    }
  }
  PrintRow(kColumns, {"total", "", NumberText("%.4g", plan.total_time_ms)},
           "  " + FormatByteSize(plan.total_workspace_bytes));
  if (!plan.optimal) std::printf("not proven optimal: at most %.4g ms from it\n", plan.gap_ms);
}

}  // namespace ucudnn::command
