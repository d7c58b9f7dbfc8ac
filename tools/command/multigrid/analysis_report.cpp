#include "command/multigrid/analysis_report.h"

#include "base/version.h"
#include "command/multigrid/report.h"
#include "command/numbers.h"

namespace ucudnn::command {
namespace {

constexpr int64_t kAnalysisVersion = 1;
constexpr int64_t kMostNumber = int64_t{1} << 53;
constexpr int64_t kMostScaledDevices = 1 << 20;

// A time in milliseconds that must be above 0.
struct PositiveMs {
  double& ms;

  std::string Write(int depth) const { return json::Write(ms, depth); }
  void Read(const JsonPlace& place) const {
    ms = place.Quantity().value_or(0);
    if (!(ms > 0)) place.Refuse("a number above 0");
  }
};

// The member `multigrid` of a row: the run of row.multigrid, with row.setting and row.cycles.
struct MultigridRun {
  ReportedScaling& row;

  void Members(json::Object& member) {
    if (!row.multigrid) row.multigrid.emplace();
    row.multigrid->Members(member);
    member("setting", row.setting);
    member("cycles", row.cycles, {.least = 1, .most = kMostNumber});
    member("coarse_levels", row.coarse_levels, json::kUnread);
  }
  bool empty() const { return !row.multigrid; }
};

}  // namespace

void ReportedLayerKind::Members(json::Object& member) {
  member("layer", layer);
  member("number", number);
  member("forward_ms", forward_ms);
  member("adjoint_ms", adjoint_ms);
  member("gradient_ms", gradient_ms);
  member("device_share", device_share);
}

void ReportedSetting::Members(json::Object& member) {
  member("coarsening", coarsening, {.least = 2, .most = kMostNumber});
  member("levels", levels, {.least = 1, .most = kMostNumber});
  member("relaxation", relaxation);
  member("coarse", coarse);
}

std::string ReportedSetting::Text() const {
  return "c = " + Joined(coarsening, ",") + ", " + std::to_string(levels) + " levels, " +
         relaxation + ", " + coarse;
}

void ReportedTried::Members(json::Object& member) {
  ReportedSetting::Members(member);
  member("residuals", residuals);
  member("rate", rate);
  member("cycles", cycles);
  member("direct", direct);
}

void ReportedRun::Members(json::Object& member) {
  member("modelled_ms", PositiveMs{ms});
  member("computing_share", Share{computing_share});
  member("message_path_ms", message_path_ms, json::kUnread);
  member("messages", messages, json::kUnread);
  member("memory_bytes", memory_bytes, json::kUnread);
  member("fits", fits);
}

void ReportedScaling::Members(json::Object& member, const std::vector<ReportedScaling>& rows) {
  member("devices", devices, {.least = 1, .most = kMostScaledDevices});
  member("partitioned", partitioned);
  member("multigrid", MultigridRun{*this}, json::kNullIfEmpty);
  if (multigrid) member("launched_streams", launched_streams);
  if (rows.size() > 1 && devices <= rows[rows.size() - 2].devices) {
    member.place().Member("devices").Fault("are not more than in the row before");
  }
}

void ReportedWorkload::Members(json::Object& member) {
  member("workload", name);
  member("serial", serial);
  member("captured", captured);
  member("rows", rows, {}, rows);
  if (rows.empty()) member.place().Member("rows").Refuse("a list of rows");
  member("pays", pays_from.has_value(), json::kUnread);
  member("pays_from", pays_from, json::kUnread);
  member("best_devices", best_devices, json::kUnread);
}

void MultigridAnalysisReport::Members(json::Object& member) {
  member("format", "ucudnn-multigrid-analysis", json::kUnread);
  member("version", json::Version{kAnalysisVersion, "analyse again with --json"});
  member("ucudnn", kVersion, json::kUnread);
  member("network", network);
  member("layers", layers, {.most = kMostNumber});
  member("parameters", parameters, {.most = kMostNumber});
  member("batch", batch, {.least = 1, .most = kMostNumber});
  member("machine", machine);
  member("layer_times", layer_times);
  member("notes", notes, json::kUnread);
  member("layer_kinds", layer_kinds, json::kUnread);
  member("norm", norm);
  member("tolerance", tolerance);
  member("reference", reference, json::kUnread);
  member("stand_in", stand_in, json::kUnread);
  member("tried", tried, json::kUnread);
  member("verified", verified, json::kUnread);
  member("workloads", workloads);
  if (workloads.empty()) member.place().Member("workloads").Refuse("a list of workloads");
}

}  // namespace ucudnn::command
