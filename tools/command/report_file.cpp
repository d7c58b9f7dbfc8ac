#include "command/report_file.h"

#include <limits>
#include <utility>

#include "base/csv.h"
#include "base/json_place.h"
#include "base/text.h"
#include "convolution/json_kernel.h"

namespace ucudnn::command {
namespace {

constexpr size_t kMostKernels = 100'000;
constexpr int64_t kMostStreams = 64;  // that a report tells apart

void ReadUndivided(const JsonPlace& place, ReportedKernel& kernel) {
  if (place.absent()) return;
  place.Object();
  MicroConfiguration undivided;
  undivided.engine = place.Member("engine").Text();
  undivided.micro_batch = kernel.problem.n;
  undivided.workspace_bytes = place.Member("workspace_bytes").Bytes();
  kernel.undivided_ms = place.Member("time_ms").Time();
  undivided.time_ms = kernel.undivided_ms.value_or(0);
  kernel.undivided = std::move(undivided);
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

// As bits.
uint64_t ReadStreams(const JsonPlace& place) {
  uint64_t streams = 0;
  for (const JsonPlace& stream : place.Items()) {
    if (!stream.ok()) break;
    streams |= uint64_t{1} << stream.Integer(0, kMostStreams - 1);
  }
  return streams;
}

ReportedKernel ReadRunKernel(const JsonPlace& place) {
  ReportedKernel kernel = ReadKernel(place);
  kernel.calls = place.Member("calls").Integer(0, kMostJsonBytes);
  kernel.undivided_calls = place.Member("undivided_calls").WholeIfThere(kMostJsonBytes).value_or(0);
  kernel.streams = ReadStreams(place.Member("streams"));
  kernel.limit_bytes = place.Member("limit_bytes").Limit();
  kernel.workspace_bytes = place.Member("workspace_bytes").Bytes();
  kernel.owned_bytes = place.Member("owned_bytes").BytesIfThere();
  kernel.plan_ms = ReadPlan(place.Member("plan"), kernel.problem.n, kernel.configuration);
  ReadUndivided(place.Member("undivided"), kernel);
  kernel.reason = place.Member("reason").TextIfThere();
  return kernel;
}

ReportedKernel ReadOfflineKernel(const JsonPlace& place, const RunReport& report) {
  ReportedKernel kernel = ReadKernel(place);
  kernel.limit_bytes = report.limit_bytes;
  kernel.segment = place.Member("segment").WholeIfThere(kMostJsonBytes);
  const JsonPlace streams = place.Member("streams");
  if (!streams.absent()) kernel.copies = streams.Integer(1, kMostStreams);
  ReadUndivided(place.Member("undivided"), kernel);
  const JsonPlace chosen = place.Member("chosen");
  chosen.Object();
  kernel.workspace_bytes = chosen.Member("workspace_bytes").Bytes();
  kernel.plan_ms = ReadPlan(chosen.Member("plan"), kernel.problem.n, kernel.configuration);
  for (const JsonPlace& one : place.Member("desirable_set").Items()) {
    if (!one.ok()) break;
    Configuration configuration;
    const JsonPlace plan = one.Member("plan");
    if (!ReadPlan(plan, kernel.problem.n, configuration)) plan.Refuse("runs that all have a time");
    if (!kernel.desirable_set.empty() &&
        configuration.WorkspaceBytes() <= kernel.desirable_set.back().WorkspaceBytes()) {
      one.Fault("does not need more workspace than the one before it");
    }
    kernel.desirable_set.push_back(std::move(configuration));
  }
  return kernel;
}

void ReadHead(const JsonPlace& root, RunReport& report) {
  const std::string format = root.Member("format").Text();
  report.offline = format == "ucudnn-workspace-table";
  if (!report.offline && format != "ucudnn-report") {
    root.Member("format").Refuse("\"ucudnn-report\" or \"ucudnn-workspace-table\"");
  }
  root.Member("version").Integer(1, 1);
  report.ucudnn = root.Member("ucudnn").TextIfThere();
  report.cudnn = static_cast<int>(
      root.Member("cudnn").WholeIfThere(std::numeric_limits<int32_t>::max()).value_or(0));
  report.device = root.Member("device").Text();
  report.mode = root.Member("mode").TextIfThere();
  report.policy = root.Member("policy").TextIfThere();
  report.measured = root.Member("measured").WholeIfThere(kMostJsonBytes);
  report.limit_bytes = root.Member("limit_bytes").Limit();
  report.undivided_limit_bytes = root.Member("undivided_limit_bytes").Limit();
  // A run's report has an object of its own for its budget.
  const JsonPlace budget = report.offline ? root : root.Member("total_workspace");
  if (!report.offline && !budget.absent()) budget.Object();
  report.total_bytes = budget.Member("total_bytes").Limit();
  report.division = budget.Member("division").TextIfThere();
  report.solver = budget.Member("solver").TextIfThere();
  report.reserved_bytes = budget.Member("total_workspace_bytes").Limit();
}

}  // namespace

std::optional<double> ReportedKernel::BaselineMs(bool offline) const {
  if (undivided_ms || offline) return undivided_ms;
  return configuration.Pieces() == 1 ? plan_ms : std::nullopt;
}

Result<RunReport> ParseReport(const std::string& json) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue value, ParseJson(json));
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
  if (!fault.ok()) return fault;
  return report;
}

Result<RunReport> ReadReport(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  Result<RunReport> report = ParseReport(text);
  if (!report.ok()) return Status::Error(Quoted(path) + ": " + report.message());
  return report;
}

}  // namespace ucudnn::command
