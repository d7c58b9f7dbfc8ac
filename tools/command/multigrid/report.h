// The format `ucudnn-multigrid` (planner/report/FORMAT.md), which `ucudnn multigrid` writes and
// `ucudnn report` reads. A file may come from an untrusted source, so every value that is read is
// checked before use. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_members.h"
#include "base/status.h"

namespace ucudnn::command {

struct ReportedSpan {
  int64_t lane = 0;   // less than the timeline's number of lanes
  int64_t level = 0;  // less than the stage's number of levels
  int64_t first = 0;  // index of its first step; first + steps is at most the level's steps
  int64_t steps = 1;
  double begin_ms = 0;
  double end_ms = 0;

  void Members(json::Object& member, int64_t lanes, const std::vector<int64_t>& levels);
};

struct ReportedTimeline {
  int64_t cycle = 1;
  int64_t lanes = 1;
  double ms = 0;
  double concurrency = 0;
  std::vector<ReportedSpan> spans;

  void Members(json::Object& member, const std::vector<int64_t>& levels);
};

// Selects ReportedStage::Members without the members of a solve. Reports of training use it,
// because training solves a stage many times.
struct WithoutSolve {};

// A stage and its levels, before any solve.
struct StageFacts {
  int64_t steps = 1;
  std::vector<int64_t> shape;   // of a state of one image: channels, then extents
  std::optional<double> step;   // the step h; a file of another program may lack it
  std::vector<int64_t> levels;  // number of layers of each level, the finest first
  // For each level except the coarsest: the number of layers that one layer of the next level
  // replaces.
  std::vector<int64_t> coarsening;
};

struct ReportedStage : StageFacts {
  std::vector<std::optional<double>> residuals;  // by cycle; unset: not measured or not finite
  int64_t cycles = 0;
  std::string status;
  std::string fallback;
  std::optional<double> largest_state;
  std::optional<ReportedTimeline> timeline;

  void Members(json::Object& member);
  void Members(json::Object& member, const WithoutSolve& without);
};

struct ReportedSolve {
  int64_t layers = 0;
  int64_t parameters = 0;
  std::vector<ReportedStage> stages;  // at least one
  std::optional<double> output_error;
  std::optional<double> seconds;
  std::optional<double> serial_seconds;

  void Members(json::Object& member);
  // Reads or writes all members except `layers` and `parameters`. A document with one solve has
  // these members at its top level.
  void SolveMembers(json::Object& member);
};

struct ReportedCheck {
  int64_t step = 0;  // counted over all epochs
  std::optional<double> output_error, gradient_error;

  void Members(json::Object& member);
};

struct ReportedEpoch {
  std::optional<double> loss;
  double top1 = 0;  // in [0, 1]
  int64_t solves = 0;
  int64_t cycles = 0;
  int64_t serial_solves = 0;
  std::string fallback;
  int64_t far_solves = 0;  // number of solves that stopped early, far from serial propagation
  // The mean of the last residuals of solves that ran cycles: forward and adjoint. Unset if no
  // solve ran cycles, or if an older ucudnn wrote the file.
  std::optional<double> residual;
  std::optional<double> backward_residual;
  std::optional<double> seconds;
  std::vector<ReportedCheck> checks;

  void Members(json::Object& member);
  // Returns the largest value of `error` in the checked steps; unset if no step was checked.
  std::optional<double> Largest(std::optional<double> ReportedCheck::*error) const;
};

struct ReportedTraining {
  std::vector<ReportedStage> stages;  // without solves
  std::string data;
  int64_t replicas = 1;
  int64_t examples = 0;
  int64_t test_examples = 0;
  std::optional<double> rate;
  std::optional<double> momentum;
  int64_t seed = 0;
  int64_t most_backward_cycles = 0;
  int64_t repeats = 1;  // number of steps with each mini-batch
  std::vector<ReportedEpoch> epochs;

  void Members(json::Object& member);
};

struct MultigridReport {
  std::string source;  // the name of the file
  std::string ucudnn;  // the version of ucudnn
  std::string network;
  int64_t layers = 0;
  int64_t parameters = 0;
  std::string weights;
  std::string backend;
  std::string precision;
  std::string machine;  // such as "double precision on the host, 2 threads"
  std::string method;   // "multigrid" or "partitioned"
  int64_t devices = 1;  // of each replica
  bool has_cpu_times = true;
  // Threads of the host that run blocks, for each of `devices`; 0 with --backend cudnn.
  int64_t threads = 0;
  std::string way, launch;
  std::vector<std::pair<std::string, double>> ways;  // measured ways, with the seconds of a cycle
  int64_t batch = 0;
  std::string norm;
  std::optional<double> tolerance;
  int64_t most_cycles = 0;
  std::string coarse;
  std::string relaxation;
  std::string start;
  std::string storage;
  std::optional<int64_t> state_bytes;  // unset on a device, or if an older ucudnn wrote the file
  // One solve, or one for each depth; empty for training.
  std::vector<ReportedSolve> solves;
  bool has_depths = false;
  std::optional<ReportedTraining> training;

  void Members(json::Object& member);
};

// Returns the member `format` of the JSON text of a file; empty if there is none.
std::string FormatNamedIn(const std::string& json);

// A number from 0 to 1.
struct Share {
  double& share;

  std::string Write(int depth) const { return json::Write(share, depth); }
  void Read(const JsonPlace& place) const;
};

}  // namespace ucudnn::command
