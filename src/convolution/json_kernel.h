// Kernels and their plans in JSON: the parts that reports and workspace plans share, read and
// written. The places keep faults. Pure functions.
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

// Reads the runs of a plan: equal micro-batches that make up the problem's images, or the kinds of
// tiles of a grid that makes up the problem. Returns the time of all runs, in milliseconds, if each
// has one.
std::optional<double> ReadPlan(const JsonPlace& list, const ConvolutionProblem& problem,
                               Division& division);

// Returns the layer and numeric columns that have a value, with values that are JSON text.
json::Fields ProblemMembers(const ConvolutionProblem& problem);

// The member `problem` of a kernel: the layer and numeric columns, with numbers as numbers. It is
// read together with the member `op` beside it.
struct ProblemColumns {
  ConvolutionProblem& problem;
  const JsonPlace& kernel;

  std::string Write(int depth) const;
  void Read(const JsonPlace&) const { problem = ReadProblem(kernel); }
};
// A problem that may be none, because the output of a refused call may be empty.
struct PossibleProblem {
  std::optional<ConvolutionProblem>& problem;
  const JsonPlace& kernel;

  std::string Write(int depth) const { return ProblemColumns{*problem, kernel}.Write(depth); }
  void Read(const JsonPlace&) const;
};

// The order of a run's members in reports, and in what `ucudnn workspace` and `bench` write.
enum class RunOrder { kReport, kCommand };

// The runs of a plan, with their engine, micro_batch, for a kind of tiles also `tile` and `border`,
// count, workspace_bytes and piece_ms, which is null if the time is unknown (negative). Read gives
// the time of all runs, too, if each has one.
struct PlanRuns {
  Division& division;
  const ConvolutionProblem& problem;
  std::optional<double>& total_ms;
  RunOrder order = RunOrder::kReport;

  std::string Write(int depth) const;
  void Read(const JsonPlace& list) const { total_ms = ReadPlan(list, problem, division); }
};

}  // namespace ucudnn
