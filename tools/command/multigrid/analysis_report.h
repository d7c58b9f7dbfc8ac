// The format `ucudnn-multigrid-analysis` (planner/multigrid/analysis/FORMAT.md). `ucudnn multigrid
// --analyse --json` writes it, and `ucudnn report` reads it for the figures of scaling. A file may
// come from an untrusted source, so every value that is read is checked before use.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_members.h"
#include "planner/multigrid/analysis/network_model.h"

namespace ucudnn::command {

// The kernels of one kind of layer, and the times of one layer.
struct ReportedLayerKind {
  std::string layer;
  int64_t number = 0;
  double forward_ms = 0, adjoint_ms = 0, gradient_ms = 0;
  double device_share = 0;  // the share of a device that the forward pass of one layer occupies

  void Members(json::Object& member);
};

struct ReportedSetting {
  std::vector<int64_t> coarsening;  // by level; further levels repeat the last number
  int64_t levels = 0;               // number of levels of the longest stage
  std::string relaxation, coarse;

  void Members(json::Object& member);
  // Formats as "c = 16, 3 levels, F, sum".
  std::string Text() const;
};

// A setting whose convergence was estimated.
struct ReportedTried : ReportedSetting {
  std::vector<double> residuals;  // after one and two cycles
  double rate = 0;
  std::optional<int> cycles;  // number of cycles needed; unset if it does not converge
  bool direct = false;        // whether relaxation alone is exact after `cycles`

  void Members(json::Object& member);
};

struct ReportedRun : multigrid::ModelledRun {
  bool fits = true;  // whether the run fits the devices' memory

  void Members(json::Object& member);

  double ComputingMs() const { return ms * computing_share; }
  double WaitingMs() const { return ms * (1 - computing_share); }
};

struct ReportedScaling {
  int devices = 1;
  ReportedRun partitioned;
  std::optional<ReportedRun> multigrid;  // none if no setting converges
  // A run with streams and the setting of `multigrid`. Unset if `multigrid` is unset.
  std::optional<ReportedRun> launched_streams;
  // The next three members describe `multigrid`.
  ReportedSetting setting;
  int64_t cycles = 0;
  std::string coarse_levels;

  // `rows` are the workload's rows up to this one. Refuses a row that does not have more devices
  // than the previous row.
  void Members(json::Object& member, const std::vector<ReportedScaling>& rows);
};

struct ReportedWorkload {
  std::string name;  // "inference" or "training"
  ReportedRun serial, captured;
  std::vector<ReportedScaling> rows;  // in ascending order of devices; at least one
  // The smallest number of devices with which multigrid pays (WorkloadAnalysis::FirstThatPays), and
  // the number with which it is fastest.
  std::optional<int> pays_from, best_devices;

  void Members(json::Object& member);
};

struct MultigridAnalysisReport {
  std::string source;  // the name of the file
  std::string network;
  int64_t layers = 0;
  int64_t parameters = 0;
  int64_t batch = 1;
  std::string machine;
  std::string layer_times;
  std::string notes;
  std::vector<ReportedLayerKind> layer_kinds;
  std::string norm;
  std::optional<double> tolerance;
  std::optional<ReportedTried> reference;
  std::string stand_in;
  std::vector<ReportedTried> tried;
  std::optional<ReportedTried> verified;
  std::vector<ReportedWorkload> workloads;  // at least one

  void Members(json::Object& member);
  bool HasMeasuredLayers() const { return layer_times != "roofline"; }
};

}  // namespace ucudnn::command
