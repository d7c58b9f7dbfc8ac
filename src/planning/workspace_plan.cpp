#include "planning/workspace_plan.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/csv.h"
#include "base/json_place.h"
#include "base/text_file.h"
#include "base/version.h"
#include "convolution/json_kernel.h"

namespace ucudnn::planning {
namespace {

// No file of kMostPlanKernels kernels is larger.
constexpr uintmax_t kLargestFile = uintmax_t{32} << 20;
// The most runs of one plan: no plan that ucudnn composes has as many.
constexpr size_t kMostRuns = 64;
constexpr size_t kLongestEngine = 1000;  // knobs and fusions make it long

// A call follows the file's kernel whatever alignment the file's pieces were measured with.
ConvolutionProblem KeyOf(ConvolutionProblem problem) {
  problem.alignment = 1;
  return problem;
}

WorkspaceDivision ReadDivision(const JsonPlace& place) {
  const std::string name = place.TextIfThere();
  for (const WorkspaceDivision division :
       {WorkspaceDivision::kDisjoint, WorkspaceDivision::kShared, WorkspaceDivision::kConcurrent}) {
    if (name == WorkspaceDivisionName(division)) return division;
  }
  if (!name.empty()) place.Refuse("disjoint, shared or concurrent");
  return WorkspaceDivision::kConcurrent;
}

WorkspacePlanKernel ReadKernel(const JsonPlace& place, const WorkspacePlan& file, size_t kernels) {
  WorkspacePlanKernel kernel;
  place.Object();
  kernel.problem = ReadProblem(place);
  const std::string api = place.Member("api").Text();
  kernel.api = api == "legacy" ? Api::kLegacy : Api::kGraph;
  if (kernel.api == Api::kGraph && api != "graph")
    place.Member("api").Refuse("\"legacy\" or \"graph\"");
  const JsonPlace plan = place.Member("plan");
  Division division({});
  if (!ReadPlan(plan, kernel.problem, division)) plan.Refuse("runs that all have a time");
  kernel.configuration = std::move(division.configuration);
  for (const Run& run : kernel.configuration.runs) {
    if (run.micro.engine.Text().size() > kLongestEngine) {
      plan.Refuse("engines of at most " + std::to_string(kLongestEngine) + " characters");
    }
  }
  if (kernel.configuration.runs.size() > kMostRuns) {
    plan.Refuse("at most " + std::to_string(kMostRuns) + " runs");
  }
  const JsonPlace segment = place.Member("segment");
  if (file.total_bytes) {
    kernel.segment = static_cast<int>(segment.Integer(0, kMostPlanKernels));
  } else if (!segment.absent()) {
    segment.Refuse("null, because there are no total_bytes");
  }
  const JsonPlace lanes = place.Member("lanes");
  if (!lanes.absent()) {
    kernel.lanes = static_cast<size_t>(lanes.Integer(1, kMostPlanLanes));
  }
  const JsonPlace after = place.Member("order_after");
  if (after.value() != nullptr && after.value()->items.size() > kMostPlanKernels) {
    after.Refuse("at most " + std::to_string(kMostPlanKernels));
    return kernel;
  }
  for (const JsonPlace& other : after.Items()) {
    if (!other.ok()) break;
    kernel.order_after.push_back(
        static_cast<int>(other.Integer(0, static_cast<int64_t>(kernels) - 1)));
  }
  return kernel;
}

bool ComesAfter(const WorkspacePlanKernel& kernel, int other) {
  return std::binary_search(kernel.order_after.begin(), kernel.order_after.end(), other);
}

// Keeps the first entry of each problem. A kept entry comes after another kept one only if each
// entry of its problem comes after each entry of the other's problem.
void KeepFirstOfEach(WorkspacePlan& plan) {
  std::vector<WorkspacePlanKernel> all = std::move(plan.kernels);
  plan.kernels.clear();
  std::vector<int> positions, entries;
  std::vector<std::vector<int>> after;  // by entry of the file
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

// Numbers the segments from 0.
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

Result<WorkspacePlan> ParseWorkspacePlan(std::string_view json) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue value, ParseJson(json));
  Status fault;
  const JsonPlace root(&value, "", fault);
  root.Object();
  const JsonPlace format = root.Member("format");
  if (format.Text() != "ucudnn-workspace-plan") format.Refuse("\"ucudnn-workspace-plan\"");
  root.Member("version").Version(kWorkspacePlanVersion, "plan again with `ucudnn workspace -o`");
  WorkspacePlan plan;
  plan.device = root.Member("device").Text();
  constexpr int64_t kMostVersion = std::numeric_limits<int32_t>::max();
  plan.cudnn = static_cast<int>(root.Member("cudnn").Integer(0, kMostVersion));
  const JsonPlace total = root.Member("total_bytes");
  if (!total.absent()) {
    plan.total_bytes = static_cast<size_t>(total.Integer(1, kMostJsonBytes));
  }
  plan.limit_bytes = root.Member("limit_bytes").Limit();
  plan.division = ReadDivision(root.Member("division"));
  const JsonPlace list = root.Member("kernels");
  if (list.absent()) list.Refuse("a list");
  const std::vector<JsonPlace> kernels = list.Items();
  if (kernels.size() > kMostPlanKernels) {
    list.Refuse("at most " + std::to_string(kMostPlanKernels));
  }
  for (const JsonPlace& kernel : kernels) {
    if (!fault.ok()) return fault;
    plan.kernels.push_back(ReadKernel(kernel, plan, kernels.size()));
  }
  if (!fault.ok()) return fault;
  KeepFirstOfEach(plan);
  UCUDNN_RETURN_IF_ERROR(FindSegments(plan));
  return plan;
}

Result<WorkspacePlan> ReadWorkspacePlan(const std::string& path) {
  std::error_code error;
  // Reading a pipe or a device may never end, or never begin.
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
