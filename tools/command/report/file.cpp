#include "command/report/file.h"

#include <limits>
#include <utility>

#include "base/csv.h"
#include "base/json_place.h"
#include "base/text.h"
#include "base/text_file.h"
#include "base/version.h"
#include "convolution/json_kernel.h"

namespace ucudnn::command {
namespace {

constexpr size_t kMostKernels = 100'000;
constexpr int64_t kMostLanes = 64;  // number of lanes that a report distinguishes

// `time` is the member with the milliseconds.
std::optional<ReportedUndivided> ReadUndivided(const JsonPlace& place, const char* time,
                                               const ReportedKernel& kernel) {
  if (place.absent()) return std::nullopt;
  place.Object();
  ReportedUndivided undivided;
  undivided.micro.engine = place.Member("engine").Text();
  undivided.micro.micro_batch = kernel.problem.n;
  undivided.micro.workspace_bytes = place.Member("workspace_bytes").Bytes();
  undivided.total_ms = place.Member(time).Time();
  undivided.micro.time_ms = undivided.total_ms.value_or(0);
  return undivided;
}

ReportedKernel ReadKernel(const JsonPlace& place) {
  ReportedKernel kernel;
  place.Object();
  kernel.problem = ReadProblem(place);
  kernel.name = place.Member("name").TextIfThere();
  std::vector<std::string> layers;
  for (const JsonPlace& layer : place.Member("layers").Items()) layers.push_back(layer.Text());
  if (!layers.empty()) kernel.name = Join(layers, ", ");
  kernel.api = place.Member("api").TextIfThere();
  return kernel;
}

// Returns the lanes as bits.
uint64_t ReadLanes(const JsonPlace& place) {
  uint64_t lanes = 0;
  for (const JsonPlace& lane : place.Items()) {
    if (!lane.ok()) break;
    lanes |= uint64_t{1} << lane.Integer(0, kMostLanes - 1);
  }
  return lanes;
}

ReportedKernel ReadRunKernel(const JsonPlace& place) {
  ReportedKernel kernel = ReadKernel(place);
  kernel.calls = place.Member("calls").Integer(0, kMostJsonBytes);
  kernel.undivided_calls =
      place.Member("undivided_calls").IntegerIfThere(kMostJsonBytes).value_or(0);
  kernel.lanes = ReadLanes(place.Member("lanes"));
  kernel.asked = place.Member("asked").TextIfThere();
  kernel.limit_bytes = place.Member("limit_bytes").Limit();
  kernel.workspace_bytes = place.Member("workspace_bytes").Bytes();
  kernel.owned_workspace_bytes = place.Member("owned_workspace_bytes").BytesIfThere();
  kernel.plan_ms = ReadPlan(place.Member("plan"), kernel.problem, kernel.division);
  kernel.undivided = ReadUndivided(place.Member("undivided"), "total_ms", kernel);
  kernel.best_undivided = ReadUndivided(place.Member("best_undivided"), "total_ms", kernel);
  kernel.reason = place.Member("reason").TextIfThere();
  return kernel;
}

ReportedKernel ReadOfflineKernel(const JsonPlace& place, const RunReport& report) {
  ReportedKernel kernel = ReadKernel(place);
  kernel.limit_bytes = report.limit_bytes;
  kernel.segment = place.Member("segment").IntegerIfThere(kMostJsonBytes);
  const JsonPlace lanes = place.Member("lanes");
  if (!lanes.absent()) kernel.copies = lanes.Integer(1, kMostLanes);
  kernel.best_undivided = ReadUndivided(place.Member("undivided"), "time_ms", kernel);
  const JsonPlace chosen = place.Member("chosen");
  chosen.Object();
  kernel.workspace_bytes = chosen.Member("workspace_bytes").Bytes();
  kernel.plan_ms = ReadPlan(chosen.Member("plan"), kernel.problem, kernel.division);
  for (const JsonPlace& one : place.Member("desirable_set").Items()) {
    if (!one.ok()) break;
    Division division = Configuration{};
    const JsonPlace plan = one.Member("plan");
    if (!ReadPlan(plan, kernel.problem, division)) plan.Refuse("runs that all have a time");
    if (!kernel.desirable_set.empty() &&
        division.configuration.WorkspaceBytes() <=
            kernel.desirable_set.back().configuration.WorkspaceBytes()) {
      one.Fault("does not need more workspace than the one before it");
    }
    kernel.desirable_set.push_back(std::move(division));
  }
  return kernel;
}

void ReadHead(const JsonPlace& root, RunReport& report) {
  const std::string format = root.Member("format").Text();
  report.offline = format == "ucudnn-workspace-table";
  if (!report.offline && format != "ucudnn-report") {
    root.Member("format").Refuse(
        "\"ucudnn-report\", \"ucudnn-workspace-table\" or \"ucudnn-multigrid\"");
  }
  if (report.offline) {
    root.Member("version").Version(kWorkspaceTableVersion,
                                   "plan again with `ucudnn workspace --json`");
  } else {
    root.Member("version").Version(kReportVersion, "run the program again with --report");
  }
  report.ucudnn = root.Member("ucudnn").TextIfThere();
  report.cudnn = static_cast<int>(
      root.Member("cudnn").IntegerIfThere(std::numeric_limits<int32_t>::max()).value_or(0));
  report.device = root.Member("device").Text();
  report.mode = root.Member("mode").TextIfThere();
  report.policy = root.Member("policy").TextIfThere();
  report.measured = root.Member("measured").IntegerIfThere(kMostJsonBytes);
  report.limit_bytes = root.Member("limit_bytes").Limit();
  report.undivided_limit_bytes = root.Member("undivided_limit_bytes").Limit();
  // A run's report has a separate object for its budget.
  const JsonPlace budget = report.offline ? root : root.Member("total_workspace");
  if (!report.offline && !budget.absent()) budget.Object();
  report.total_bytes = budget.Member("total_bytes").Limit();
  report.division = budget.Member("division").TextIfThere();
  report.solver = budget.Member("solver").TextIfThere();
  report.reserved_bytes = budget.Member("total_workspace_bytes").Limit();
}

}  // namespace

std::optional<double> ReportedKernel::UndividedMs() const {
  if (undivided) return undivided->total_ms;
  const bool own_api =
      division.configuration.Pieces() == 1 &&
      division.configuration.runs[0].micro.engine.of_graph_api() == (api == "graph");
  return own_api ? plan_ms : std::nullopt;
}

std::optional<double> ReportedKernel::BestUndividedMs(bool offline) const {
  if (best_undivided) return best_undivided->total_ms;
  return !offline && division.configuration.Pieces() == 1 ? plan_ms : std::nullopt;
}

Result<RunReport> ParseReport(const std::string& json) {
  const Result<JsonValue> parsed = ParseJson(json);
  if (!parsed.ok()) {
    return Status::Error(parsed.message() +
                         "; expected what --report or `ucudnn workspace --json` wrote");
  }
  const JsonValue& value = *parsed;
  Status fault;
  const JsonPlace root(&value, "", fault);
  root.Object();
  UCUDNN_RETURN_IF_ERROR(fault);
  RunReport report;
  ReadHead(root, report);
  const std::vector<JsonPlace> kernels = root.Member("kernels").Items();
  if (kernels.size() > kMostKernels) {
    root.Member("kernels").Refuse("at most " + std::to_string(kMostKernels));
  }
  for (const JsonPlace& place : kernels) {
    if (!fault.ok()) return fault;
    report.kernels.push_back(report.offline ? ReadOfflineKernel(place, report)
                                            : ReadRunKernel(place));
  }
  for (const JsonPlace& place : root.Member("fallbacks").Items()) {
    if (!fault.ok()) return fault;
    report.fallbacks.push_back({place.Member("kernel").Text(), place.Member("cause").Text(),
                                place.Member("count").Integer(0, kMostJsonBytes)});
  }
  if (!report.offline) report.split = ReadSplitJob(root.Member("spatial"));
  if (!fault.ok()) return fault;
  return report;
}

Result<RunReport> ReadReport(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  Result<RunReport> report = ParseReport(text);
  if (!report.ok()) return Status::Error(Quoted(path) + ": " + report.message());
  if (report->split) {
    for (RankEntry& rank : report->split->ranks) {
      rank.source = path;
      rank.device = report->device;
    }
  }
  return report;
}

}  // namespace ucudnn::command
