// Reads and writes kernels and their plans as JSON, in the form that reports and workspace plans
// share. If a value is wrong, the JsonPlace that was read keeps the fault. ReadPlan fills
// `division`, and each Read fills the variables to which its struct refers.
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

// Reads the runs of a plan into `division`. The runs are equal micro-batches that add up to the
// problem's images, or kinds of tiles of a grid that covers the problem. Returns the time of all
// runs in milliseconds, or none if a run has no time.
std::optional<double> ReadPlan(const JsonPlace& list, const ConvolutionProblem& problem,
                               Division& division);

// Returns the columns of ToColumns() (columns.h) whose value is not empty, with values as JSON
// text: numbers without quotes, other values with quotes.
json::Fields ProblemMembers(const ConvolutionProblem& problem);

// The member `problem` of a kernel, an object with the ProblemMembers. Read also reads the kernel's
// member `op`.
struct ProblemColumns {
  ConvolutionProblem& problem;
  const JsonPlace& kernel;

  std::string Write(int depth) const;
  void Read(const JsonPlace&) const { problem = ReadProblem(kernel); }
};
// The member `problem` of a kernel whose problem may be invalid. For example, a call may have been
// refused because its output is empty. Read leaves `problem` unset if it is invalid.
struct PossibleProblem {
  std::optional<ConvolutionProblem>& problem;
  const JsonPlace& kernel;

  std::string Write(int depth) const { return ProblemColumns{*problem, kernel}.Write(depth); }
  void Read(const JsonPlace&) const;
};

// The order in which a run's members are written: as in reports, or as in the output of `ucudnn
// workspace` and `ucudnn bench`.
enum class RunOrder { kReport, kCommand };

// The runs of a plan. Each run has its `engine`, `micro_batch`, `count`, `workspace_bytes` and
// `piece_ms`, which is null if the time is negative (unknown). A run of tiles also has `tile`. It
// has `border` only if all its tiles touch the same border of the whole tensor (BorderOf). It has
// `pack_bytes` and `pack_ms` only if its tiles are packed. Read sets `total_ms` to the time of all
// runs, or to none if the time of a run is unknown.
struct PlanRuns {
  Division& division;
  const ConvolutionProblem& problem;
  std::optional<double>& total_ms;
  RunOrder order = RunOrder::kReport;

  std::string Write(int depth) const;
  void Read(const JsonPlace& list) const { total_ms = ReadPlan(list, problem, division); }
};

}  // namespace ucudnn
