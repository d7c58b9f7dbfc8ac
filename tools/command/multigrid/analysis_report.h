// Reads analyses that `ucudnn multigrid --analyse --json` wrote (`ucudnn-multigrid-analysis`,
// planner/multigrid/analysis/FORMAT.md), for the figures of scaling. The files may come from
// elsewhere, so every value is checked before use. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::command {

struct ReportedRun {
  double ms = 0;               // modelled, never measured
  double computing_share = 0;  // in [0, 1]; the rest of the time is waiting
  bool fits = true;            // whether the run fits the devices' memory

  double ComputingMs() const { return ms * computing_share; }
  double WaitingMs() const { return ms * (1 - computing_share); }
};

struct ReportedScaling {
  int devices = 1;
  ReportedRun partitioned;
  std::optional<ReportedRun> multigrid;  // none if no setting converges
  // The setting of `multigrid` with streams; none without `multigrid`.
  std::optional<ReportedRun> launched_streams;
  std::string setting;  // such as "c = 8, 4 levels, F, sum, 1 cycle"
};

struct ReportedWorkload {
  std::string name;  // "inference" or "training"
  ReportedRun serial, captured;
  std::vector<ReportedScaling> rows;  // in ascending order of devices; at least one
};

struct MultigridAnalysisReport {
  std::string source;  // the name of the file
  std::string network;
  int64_t layers = 0;
  int64_t parameters = 0;
  int64_t batch = 1;
  std::string machine;
  std::string layer_times;
  std::string norm;
  std::optional<double> tolerance;
  std::vector<ReportedWorkload> workloads;  // at least one

  bool HasMeasuredLayers() const { return layer_times != "roofline"; }
};

// The error names the place of the wrong value, and what was expected.
Result<MultigridAnalysisReport> ParseMultigridAnalysis(const std::string& json);

}  // namespace ucudnn::command
