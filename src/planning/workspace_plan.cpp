#include "planning/workspace_plan.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/csv.h"
#include "base/json_members.h"
#include "base/json_place.h"
#include "base/text_file.h"
#include "base/version.h"
#include "convolution/json_kernel.h"
#include "convolution/tiles.h"

namespace ucudnn::planning {
namespace {

// The most bytes of a file. No file of at most kMostPlanKernels kernels is larger.
constexpr uintmax_t kLargestFile = uintmax_t{32} << 20;
// The most runs of one plan. Plans that ucudnn composes have fewer.
constexpr size_t kMostRuns = 64;
constexpr const char* kFormat = "ucudnn-workspace-plan";
// The most characters of an engine's text, which is long if the engine has many knobs and fused
// operations.
constexpr size_t kLongestEngine = 1000;

// Returns the key by which a problem is found in the file. It has alignment 1, because a call
// follows the file's kernel whatever alignment the kernel's pieces were measured with.
ConvolutionProblem KeyOf(ConvolutionProblem problem) {
  problem.alignment = 1;
  return problem;
}

// Sets `found` to the division called `name`; leaves `found` unchanged if `name` is empty. Returns
// false if no division has this name.
bool FindDivision(const std::string& name, WorkspaceDivision& found) {
  for (const WorkspaceDivision division :
       {WorkspaceDivision::kDisjoint, WorkspaceDivision::kShared, WorkspaceDivision::kConcurrent}) {
    if (name != WorkspaceDivisionName(division)) continue;
    found = division;
    return true;
  }
  return name.empty();
}

void CheckPlan(const Configuration& configuration, bool is_timed, const JsonPlace& plan) {
  if (!is_timed) plan.Refuse("runs that all have a time");
  for (const Run& run : configuration.runs) {
    if (run.micro.engine.Text().size() > kLongestEngine) {
      plan.Refuse("engines of at most " + std::to_string(kLongestEngine) + " characters");
    }
  }
  if (configuration.runs.size() > kMostRuns) {
    plan.Refuse("at most " + std::to_string(kMostRuns) + " runs");
  }
}

bool ComesAfter(const WorkspacePlanKernel& kernel, int other) {
  return std::binary_search(kernel.order_after.begin(), kernel.order_after.end(), other);
}

// Keeps the first entry of each problem and API and removes the others. In the result, one kernel
// comes after another one (order_after) only if, in the file, every entry of the one comes after
// every entry of the other.
void KeepFirstOfEach(WorkspacePlan& plan) {
  std::vector<WorkspacePlanKernel> all = std::move(plan.kernels);
  plan.kernels.clear();
  std::vector<int> positions, entries;
  std::vector<std::vector<int>> after;  // for each entry of the file
  for (WorkspacePlanKernel& kernel : all) {
    auto& known = kernel.api == Api::kLegacy ? plan.legacy_positions : plan.graph_positions;
    const auto [entry, fresh] =
        known.try_emplace(KeyOf(kernel.problem), static_cast<int>(plan.kernels.size()));
    positions.push_back(entry->second);
    after.push_back(std::move(kernel.order_after));
    if (fresh) {
      plan.kernels.push_back(std::move(kernel));
      entries.push_back(0);
    }
    ++entries[entry->second];
  }
  std::vector<std::map<int, int>> said(plan.kernels.size());
  for (size_t i = 0; i < after.size(); ++i) {
    for (const int other : std::set<int>(after[i].begin(), after[i].end())) {
      ++said[positions[i]][positions[other]];
    }
  }
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    std::vector<int>& of_all = plan.kernels[i].order_after;
    of_all.clear();
    for (const auto& [other, times] : said[i]) {
      if (times == entries[i] * entries[other]) of_all.push_back(other);
    }
  }
}

// Collects the kernels of each of the file's segments, and numbers the segments from 0.
Status FindSegments(WorkspacePlan& plan) {
  if (!plan.total_bytes) return Status::Ok();
  std::map<int, std::vector<int>> of_segment;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    WorkspacePlanKernel& kernel = plan.kernels[i];
    of_segment[kernel.segment].push_back(static_cast<int>(i));
    kernel.segment = -1;
  }
  for (const auto& entry : of_segment) {
    const std::vector<int>& kernels = entry.second;
    WorkspacePlanSegment segment;
    for (const int i : kernels) {
      WorkspacePlanKernel& kernel = plan.kernels[i];
      segment.bytes = std::max(segment.bytes, kernel.configuration.WorkspaceBytes());
      segment.copies = std::max(segment.copies, kernel.lanes);
      kernel.segment = static_cast<int>(plan.segments.size());
    }
    segment.ordered = std::all_of(kernels.begin(), kernels.end(), [&](int one) {
      return std::all_of(kernels.begin(), kernels.end(),
                         [&](int other) { return ComesAfter(plan.kernels[one], other); });
    });
    if (segment.ordered) segment.copies = 1;
    if (segment.bytes > (*plan.total_bytes - plan.reserved_bytes) / segment.copies) {
      return Status::Error("the segments take more than the total_bytes of " +
                           std::to_string(*plan.total_bytes));
    }
    plan.reserved_bytes += segment.bytes * segment.copies;
    plan.segments.push_back(segment);
  }
  return Status::Ok();
}

}  // namespace

int WorkspacePlan::Find(const ConvolutionProblem& problem, Api api) const {
  const ConvolutionProblem key = KeyOf(problem);
  if (api == Api::kGraph) {
    const auto found = graph_positions.find(key);
    if (found != graph_positions.end()) return found->second;
  }
  const auto found = legacy_positions.find(key);
  return found == legacy_positions.end() ? -1 : found->second;
}

std::vector<int> WorkspacePlan::BatchesOf(const ConvolutionProblem& problem, Api api) const {
  std::set<int> batches;
  ConvolutionProblem other = KeyOf(problem);
  for (const WorkspacePlanKernel& kernel : kernels) {
    other.n = kernel.problem.n;
    const bool followed = kernel.api == Api::kLegacy || api == Api::kGraph;
    if (followed && KeyOf(kernel.problem) == other) batches.insert(other.n);
  }
  return {batches.begin(), batches.end()};
}

void WorkspacePlanKernel::Members(json::Object& member, bool has_total, size_t kernels) {
  member("op", OperationName(problem.operation), json::kUnread);
  member("problem", ProblemColumns{problem, member.place()});
  std::string api_name = api == Api::kLegacy ? "legacy" : "graph";
  member("api", api_name);
  api = api_name == "legacy" ? Api::kLegacy : Api::kGraph;
  if (api == Api::kGraph && api_name != "graph") {
    member.place().Member("api").Refuse("\"legacy\" or \"graph\"");
  }
  const Result<Division> tiled = DivisionOf(problem, configuration);
  Division division = tiled.ok() ? *tiled : Division(configuration);
  std::optional<double> total_ms;
  member("plan", PlanRuns{division, problem, total_ms, RunOrder::kCommand});
  configuration = std::move(division.configuration);
  CheckPlan(configuration, total_ms.has_value(), member.place().Member("plan"));
  const JsonPlace own = member.place().Member("segment");
  if (has_total) {
    member("segment", segment, {.most = kMostPlanKernels});
  } else {
    member("segment", std::optional<int>(), json::kUnread);
    if (!own.absent()) own.Refuse("null, because there are no total_bytes");
  }
  member("lanes", lanes,
         {.may_lack = true, .left_out = lanes == 1, .least = 1, .most = kMostPlanLanes});
  member("order_after", order_after,
         {.may_lack = true,
          .most = static_cast<int64_t>(kernels) - 1,
          .most_items = kMostPlanKernels});
}

void WorkspacePlan::Members(json::Object& member) {
  std::string format = kFormat;
  member("format", format);
  if (format != kFormat) member.place().Member("format").Refuse(json::FormatText(kFormat));
  member("version", json::Version{kWorkspacePlanVersion, "plan again with `ucudnn workspace -o`"});
  member("cudnn", cudnn);
  member("device", device);
  const bool has_total = member.Has("total_bytes", total_bytes.has_value());
  if (has_total) {
    if (!total_bytes) total_bytes = 0;
    member("total_bytes", *total_bytes, {.least = 1});
  }
  member("limit_bytes", limit_bytes, has_total ? json::kLeftOutIfEmpty : json::kMayLack);
  std::string name = WorkspaceDivisionName(division);
  member("division", name, json::kMayLack);
  if (!FindDivision(name, division)) {
    member.place().Member("division").Refuse("disjoint, shared or concurrent");
  }
  const JsonPlace list = member.place().Member("kernels");
  if (!member.Has("kernels", true)) list.Refuse("a list");
  const size_t count = list.Items().size();
  member("kernels", kernels, {.most_items = kMostPlanKernels}, has_total, count);
}

Result<WorkspacePlan> ParseWorkspacePlan(std::string_view json) {
  UCUDNN_ASSIGN_OR_RETURN(WorkspacePlan plan, json::Parse<WorkspacePlan>(json));
  KeepFirstOfEach(plan);
  UCUDNN_RETURN_IF_ERROR(FindSegments(plan));
  return plan;
}

Result<WorkspacePlan> ReadWorkspacePlan(const std::string& path) {
  std::error_code error;
  // Only a regular file is read, because opening or reading a pipe or a device may block forever.
  if (!std::filesystem::is_regular_file(path, error)) {
    return Status::Error(path + ": " + (error ? error.message() : "is no regular file"));
  }
  if (std::filesystem::file_size(path, error) > kLargestFile || error) {
    return Status::Error(path + ": larger than 32 MiB");
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  Result<WorkspacePlan> plan = ParseWorkspacePlan(text);
  if (!plan.ok()) return Status::Error(path + ": " + plan.message());
  return plan;
}

}  // namespace ucudnn::planning
