// Reports of `ucudnn multigrid` read back (`ucudnn-multigrid`, planner/report/FORMAT.md). The files
// are not ours alone: every value is checked before it is used. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_place.h"
#include "base/status.h"

namespace ucudnn::command {

struct ReportedSpan {
  int64_t lane = 0;   // below the timeline's
  int64_t level = 0;  // of the stage's
  int64_t first = 0;  // step of the level; all of them are
  int64_t steps = 1;
  double begin_ms = 0;
  double end_ms = 0;
};

struct ReportedTimeline {
  int64_t cycle = 1;
  int64_t lanes = 1;
  double ms = 0;
  double concurrency = 0;
  std::vector<ReportedSpan> spans;
};

struct ReportedStage {
  int64_t steps = 1;
  std::string shape;            // of a state, "4x24x24"
  std::optional<double> step;   // h
  std::vector<int64_t> levels;  // layers of each, the finest first
  std::vector<int64_t> coarsening;
  std::vector<std::optional<double>> residuals;  // by cycle; none: not measured, or not finite
  int64_t cycles = 0;
  std::string status;
  std::string fallback;
  std::optional<double> largest_state;
  std::optional<ReportedTimeline> timeline;
};

struct ReportedSolve {
  int64_t layers = 0;
  int64_t parameters = 0;
  std::vector<ReportedStage> stages;  // at least one
  std::optional<double> output_error;
  std::optional<double> seconds;
  std::optional<double> serial_seconds;
};

struct ReportedEpoch {
  std::optional<double> loss;
  double top1 = 0;  // in [0, 1]
  int64_t solves = 0;
  int64_t cycles = 0;
  int64_t serial_solves = 0;
  std::string fallback;
  int64_t far_solves = 0;  // that stopped early, far from serial propagation
  // Means at which solves by cycles ended; none: none was, or an older ucudnn wrote it.
  std::optional<double> residual;
  std::optional<double> backward_residual;
  std::optional<double> seconds;
  // The largest of the epoch's checked steps; none: none was checked.
  std::optional<double> output_error;
  std::optional<double> gradient_error;
};

struct ReportedTraining {
  std::vector<ReportedStage> stages;  // what is solved; nothing of its solves
  std::string data;
  int64_t examples = 0;
  int64_t test_examples = 0;
  std::optional<double> rate;
  std::optional<double> momentum;
  int64_t most_backward_cycles = 0;
  int64_t repeats = 1;  // steps with each mini-batch
  std::vector<ReportedEpoch> epochs;
};

struct MultigridReport {
  std::string source;  // the file
  std::string ucudnn;  // version
  std::string network;
  int64_t layers = 0;
  int64_t parameters = 0;
  std::string weights;
  std::string backend;
  std::string precision;
  std::string machine;  // "double precision on the host, 2 threads"
  std::string method;   // "multigrid" or "partitioned"
  int64_t devices = 1;  // of each replica
  bool has_cpu_times = true;
  int64_t batch = 0;
  std::string norm;
  std::optional<double> tolerance;
  int64_t most_cycles = 0;
  std::string coarse;
  std::string relaxation;
  std::string start;
  std::string storage;
  std::optional<int64_t> state_bytes;  // none: on a device, or an older ucudnn wrote it
  // One, or one for each depth; none where it is of training.
  std::vector<ReportedSolve> solves;
  std::optional<ReportedTraining> training;
};

// What the text of a file says that its format is; empty: nothing.
std::string FormatNamedIn(const std::string& json);
// Values that have these bounds, with the place's fault where they do not.
bool ReadFlag(const JsonPlace& place);
double ReadShare(const JsonPlace& place);  // from 0 to 1

// The error names the value that is wrong by its place ("stages[0].cycles"), and what was expected.
Result<MultigridReport> ParseMultigridReport(const std::string& json);

}  // namespace ucudnn::command
