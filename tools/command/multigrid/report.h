// Reads reports of `ucudnn multigrid` (`ucudnn-multigrid`, planner/report/FORMAT.md). The files may
// come from elsewhere, so every value is checked before use. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_place.h"
#include "base/status.h"

namespace ucudnn::command {

struct ReportedSpan {
  int64_t lane = 0;   // less than the timeline's number of lanes
  int64_t level = 0;  // less than the stage's number of levels
  int64_t first = 0;  // first step of the level; all steps exist
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
  std::string shape;            // shape of a state, "4x24x24"
  std::optional<double> step;   // h
  std::vector<int64_t> levels;  // number of layers of each level, the finest first
  std::vector<int64_t> coarsening;
  std::vector<std::optional<double>> residuals;  // by cycle; none if not measured or not finite
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
  int64_t far_solves = 0;  // number of solves that stopped early, far from serial propagation
  // The mean residuals at which solves by cycles ended. None if there was no such solve, or an
  // older ucudnn wrote the file.
  std::optional<double> residual;
  std::optional<double> backward_residual;
  std::optional<double> seconds;
  // The largest error of the epoch's checked steps; none if no step was checked.
  std::optional<double> output_error;
  std::optional<double> gradient_error;
};

struct ReportedTraining {
  std::vector<ReportedStage> stages;  // what is solved, without its solves
  std::string data;
  int64_t examples = 0;
  int64_t test_examples = 0;
  std::optional<double> rate;
  std::optional<double> momentum;
  int64_t most_backward_cycles = 0;
  int64_t repeats = 1;  // number of steps with each mini-batch
  std::vector<ReportedEpoch> epochs;
};

struct MultigridReport {
  std::string source;  // the file
  std::string ucudnn;  // version of ucudnn
  std::string network;
  int64_t layers = 0;
  int64_t parameters = 0;
  std::string weights;
  std::string backend;
  std::string precision;
  std::string machine;  // "double precision on the host, 2 threads"
  std::string method;   // "multigrid" or "partitioned"
  int64_t devices = 1;  // number of devices of each replica
  bool has_cpu_times = true;
  int64_t batch = 0;
  std::string norm;
  std::optional<double> tolerance;
  int64_t most_cycles = 0;
  std::string coarse;
  std::string relaxation;
  std::string start;
  std::string storage;
  std::optional<int64_t> state_bytes;  // none on a device, or if an older ucudnn wrote the file
  // One solve, or one for each depth; empty for training.
  std::vector<ReportedSolve> solves;
  std::optional<ReportedTraining> training;
};

// Returns the format that the text of a file names; empty if none.
std::string FormatNamedIn(const std::string& json);
// These read values within bounds, and note a fault of the place if a value is outside.
bool ReadFlag(const JsonPlace& place);
double ReadShare(const JsonPlace& place);  // from 0 to 1

// The error names the place of the wrong value ("stages[0].cycles"), and what was expected.
Result<MultigridReport> ParseMultigridReport(const std::string& json);

}  // namespace ucudnn::command
