// Reports of `ucudnn multigrid` read back (`ucudnn-multigrid`, planner/report/FORMAT.md). The files
// are not ours alone: every value is checked before it is used. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::command {

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
  bool has_cpu_times = true;
  int64_t batch = 0;
  std::string norm;
  std::optional<double> tolerance;
  int64_t most_cycles = 0;
  std::string coarse;
  std::string relaxation;
  std::string cycle;
  std::string start;
  std::string storage;
  // One, or one for each depth; none where it is of training.
  std::vector<ReportedSolve> solves;
  std::optional<ReportedTraining> training;
};

// Whether the text of a file says that it is such a report.
bool IsMultigridReport(const std::string& json);

// The error names the value that is wrong by its place ("stages[0].cycles"), and what was expected.
Result<MultigridReport> ParseMultigridReport(const std::string& json);

}  // namespace ucudnn::command
