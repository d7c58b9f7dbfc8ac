#include "command/multigrid/analysis_report.h"

#include "base/json_place.h"
#include "base/text.h"
#include "command/multigrid/report.h"
#include "command/numbers.h"

namespace ucudnn::command {
namespace {

constexpr int64_t kAnalysisVersion = 1;
constexpr int64_t kMostNumber = int64_t{1} << 53;
constexpr int64_t kMostScaledDevices = 1 << 20;

ReportedRun ReadRun(const JsonPlace& place) {
  ReportedRun run;
  place.Object();
  const JsonPlace ms = place.Member("modelled_ms");
  run.ms = ms.Quantity().value_or(0);
  if (!(run.ms > 0)) ms.Refuse("a number above 0");
  run.computing_share = ReadShare(place.Member("computing_share"));
  run.fits = place.Member("fits").Flag();
  return run;
}

// Formats the setting of a row's `multigrid` as "c = 16, 3 levels, F, sum, 1 cycle".
std::string ReadSetting(const JsonPlace& multigrid) {
  const JsonPlace setting = multigrid.Member("setting");
  setting.Object();
  std::vector<int64_t> factors;
  for (const JsonPlace& factor : setting.Member("coarsening").Items()) {
    factors.push_back(factor.Integer(2, kMostNumber));
  }
  const int64_t levels = setting.Member("levels").Integer(1, kMostNumber);
  const int64_t cycles = multigrid.Member("cycles").Integer(1, kMostNumber);
  return "c = " + Joined(factors, ",") + ", " + std::to_string(levels) + " levels, " +
         setting.Member("relaxation").Text() + ", " + setting.Member("coarse").Text() + ", " +
         Counted(cycles, "cycle");
}

ReportedScaling ReadScaling(const JsonPlace& place) {
  ReportedScaling row;
  place.Object();
  row.devices = static_cast<int>(place.Member("devices").Integer(1, kMostScaledDevices));
  row.partitioned = ReadRun(place.Member("partitioned"));
  const JsonPlace multigrid = place.Member("multigrid");
  if (multigrid.absent()) return row;
  row.multigrid = ReadRun(multigrid);
  row.setting = ReadSetting(multigrid);
  const JsonPlace streams = place.Member("launched_streams");
  if (!streams.absent()) row.launched_streams = ReadRun(streams);
  return row;
}

ReportedWorkload ReadWorkload(const JsonPlace& place) {
  ReportedWorkload workload;
  place.Object();
  workload.name = place.Member("workload").Text();
  workload.serial = ReadRun(place.Member("serial"));
  workload.captured = ReadRun(place.Member("captured"));
  const JsonPlace rows = place.Member("rows");
  for (const JsonPlace& row : rows.Items()) {
    if (!row.ok()) break;
    const int before = workload.rows.empty() ? 0 : workload.rows.back().devices;
    workload.rows.push_back(ReadScaling(row));
    if (row.ok() && workload.rows.back().devices <= before) {
      row.Member("devices").Fault("are not more than in the row before");
    }
  }
  if (rows.ok() && workload.rows.empty()) rows.Refuse("a list of rows");
  return workload;
}

}  // namespace

Result<MultigridAnalysisReport> ParseMultigridAnalysis(const std::string& json) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue value, ParseJson(json));
  Status fault;
  const JsonPlace root(&value, "", fault);
  root.Object();
  UCUDNN_RETURN_IF_ERROR(fault);
  MultigridAnalysisReport report;
  root.Member("version").Version(kAnalysisVersion, "analyse again with --json");
  report.network = root.Member("network").Text();
  report.layers = root.Member("layers").Integer(0, kMostNumber);
  report.parameters = root.Member("parameters").Integer(0, kMostNumber);
  report.batch = root.Member("batch").Integer(1, kMostNumber);
  report.machine = root.Member("machine").Text();
  report.layer_times = root.Member("layer_times").Text();
  report.norm = root.Member("norm").Text();
  report.tolerance = root.Member("tolerance").Quantity();
  const JsonPlace workloads = root.Member("workloads");
  for (const JsonPlace& workload : workloads.Items()) {
    if (!workload.ok()) break;
    report.workloads.push_back(ReadWorkload(workload));
  }
  if (workloads.ok() && report.workloads.empty()) workloads.Refuse("a list of workloads");
  UCUDNN_RETURN_IF_ERROR(fault);
  return report;
}

}  // namespace ucudnn::command
