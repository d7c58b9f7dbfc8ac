// Kernels and their plans in JSON, in the form that reports and workspace plans share. A reader's
// JsonPlace keeps the first fault. The functions keep no state; ReadPlan fills `division`, and each
// Read fills the variables to which its struct refers.
#pragma once

#include <optional>
#include <string>

#include "base/json_members.h"
#include "base/json_place.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn {

// Reads the convolution from an object's `op` and `problem`.
ConvolutionProblem ReadProblem(const JsonPlace& kernel);

// Reads the runs of a plan: equal micro-batches that add up to the problem's images, or kinds of
// tiles of a grid that covers the problem. Returns the time of all runs in milliseconds, or none if
// a run has no time.
std::optional<double> ReadPlan(const JsonPlace& list, const ConvolutionProblem& problem,
                               Division& division);

// Returns the columns of ToColumns() that have a value (columns.h), with values that are JSON text.
json::Fields ProblemMembers(const ConvolutionProblem& problem);

// The member `problem` of a kernel: the columns of ToColumns() that have a value (columns.h), with
// numbers as numbers. Read also reads the kernel's member `op`.
struct ProblemColumns {
  ConvolutionProblem& problem;
  const JsonPlace& kernel;

  std::string Write(int depth) const;
  void Read(const JsonPlace&) const { problem = ReadProblem(kernel); }
};
// The member `problem` of a kernel that may have no valid problem, because the output of a refused
// call may be empty. Read then leaves `problem` unset.
struct PossibleProblem {
  std::optional<ConvolutionProblem>& problem;
  const JsonPlace& kernel;

  std::string Write(int depth) const { return ProblemColumns{*problem, kernel}.Write(depth); }
  void Read(const JsonPlace&) const;
};

// The order of a run's members: as in reports, or as in `ucudnn workspace` and `ucudnn bench`.
enum class RunOrder { kReport, kCommand };

// The runs of a plan, each with its engine, micro_batch, count, workspace_bytes and piece_ms, which
// is null if the time is unknown (negative). A run of tiles also has `tile`, has `border` unless
// its tiles lie inside, and has `pack_bytes` and `pack_ms` if they are packed. Read sets `total_ms`
// to the time of all runs, or to none if a run has no time.
struct PlanRuns {
  Division& division;
  const ConvolutionProblem& problem;
  std::optional<double>& total_ms;
  RunOrder order = RunOrder::kReport;

  std::string Write(int depth) const;
  void Read(const JsonPlace& list) const { total_ms = ReadPlan(list, problem, division); }
};

}  // namespace ucudnn
