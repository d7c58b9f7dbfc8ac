#include "command/workspace/table.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <utility>

#include "base/byte_size.h"
#include "base/version.h"
#include "command/numbers.h"
#include "command/text_table.h"

namespace ucudnn::command {
namespace {

// Adds the budget of all kernels, or the limit of each (null: none).
void AddBudget(const Options& options, Json& json) {
  if (options.total_workspace) {
    json["total_bytes"] = *options.total_workspace;
    if (options.workspace_limit) json["limit_bytes"] = *options.workspace_limit;
  } else {
    json["limit_bytes"] = OrNull(options.workspace_limit);
  }
  json["division"] = WorkspaceDivisionName(options.division);
}

Json SegmentJson(const WorkspaceTable& plan, const Options& options, size_t kernel) {
  if (!options.total_workspace) return {};
  return plan.segments[kernel];
}

// Adds the lanes behind the segment, if it has more than one.
void AddLanes(const WorkspaceTable& plan, const Options& options, size_t kernel, Json& json) {
  if (options.total_workspace && plan.copies[kernel] > 1) json["lanes"] = plan.copies[kernel];
}

// Returns the fastest engine for the whole mini-batch within the limit; null: none fits.
Json UndividedJson(const OfflineKernel& kernel, const std::optional<size_t>& limit_bytes) {
  Json fastest;
  for (const MicroConfiguration& engine : kernel.undivided) {
    if (!limit_bytes || engine.workspace_bytes <= *limit_bytes) fastest = EngineJson(engine);
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

Json WorkspaceTableJson(const WorkspaceTable& plan, const Options& options) {
  const planning::Platform& platform = plan.network.platform;
  Json json = {
      {"format", "ucudnn-workspace-table"}, {"version", kWorkspaceTableVersion},
      {"device", platform.device},          {"cudnn", platform.cudnn},
      {"driver", platform.driver},          {"policy", BatchSizePolicyName(options.policy)}};
  AddBudget(options, json);
  json["solver"] = plan.solver.empty() ? Json() : Json(plan.solver);
  json["optimal"] = plan.optimal;
  if (!plan.optimal) json["gap_ms"] = plan.gap_ms;
  json["total_time_ms"] = plan.total_time_ms;
  json["total_workspace_bytes"] = plan.total_workspace_bytes;
  const std::optional<size_t> undivided_limit = UndividedLimit(plan, options);
  json["undivided_limit_bytes"] = OrNull(undivided_limit);
  json["kernels"] = Json::array();
  for (size_t i = 0; i < plan.chosen.size(); ++i) {
    const OfflineKernel& kernel = plan.network.kernels[i];
    const Json desirable = ListOf(kernel.desirable_set, DivisionJson);
    Json one = {{"name", kernel.layer.name},
                {"op", OperationName(kernel.layer.problem.operation)},
                {"problem", ProblemJson(kernel.layer.problem)},
                {"api", kernel.api},
                {"segment", SegmentJson(plan, options, i)}};
    AddLanes(plan, options, i, one);
    one["undivided"] = UndividedJson(kernel, undivided_limit);
    one["chosen"] = desirable[plan.chosen[i]];
    one["desirable_set"] = desirable;
    json["kernels"].push_back(std::move(one));
  }
  return json;
}

Json WorkspacePlanJson(const WorkspaceTable& plan, const Options& options) {
  Json json = {{"format", "ucudnn-workspace-plan"},
               {"version", kWorkspacePlanVersion},
               {"cudnn", plan.network.platform.cudnn},
               {"device", plan.network.platform.device}};
  AddBudget(options, json);
  json["kernels"] = Json::array();
  for (size_t i = 0; i < plan.chosen.size(); ++i) {
    const OfflineKernel& kernel = plan.network.kernels[i];
    Json one = {{"op", OperationName(kernel.layer.problem.operation)},
                {"problem", ProblemJson(kernel.layer.problem)},
                {"api", kernel.api},
                {"plan", PlanJson(kernel.desirable_set[plan.chosen[i]])},
                {"segment", SegmentJson(plan, options, i)}};
    AddLanes(plan, options, i, one);
    one["order_after"] = Json::array();
    json["kernels"].push_back(std::move(one));
  }
  return json;
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
  std::printf("%-20s %-16s %12.4g  %s\n", "total", "", plan.total_time_ms,
              FormatByteSize(plan.total_workspace_bytes).c_str());
  if (!plan.optimal) std::printf("not proven optimal: at most %.4g ms from it\n", plan.gap_ms);
}

}  // namespace ucudnn::command
