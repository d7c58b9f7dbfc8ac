// The plan of `ucudnn workspace`, and its output. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command/offline_kernels.h"
#include "options/options.h"

namespace ucudnn::command {

// One configuration of each kernel: the fastest within its own limit (WR), or within one budget for
// all (WD).
struct WorkspaceTable {
  OfflineKernels network;       // desirable sets within the limit
  std::vector<size_t> chosen;   // for each kernel, the position in its desirable set
  std::vector<size_t> numbers;  // for each kernel; layers of one shape are one kernel in a run
  // Segment of each kernel, if there is one budget. Kernels with the same segment share it, in as
  // many copies as they have lanes.
  std::vector<size_t> segments;
  std::vector<size_t> copies;
  size_t lanes = 1;    // number of lanes on which any kernel was seen
  size_t shares = 1;   // number of equal parts of the budget: see UndividedLimit
  std::string solver;  // empty: there was nothing to solve
  bool optimal = true;
  double gap_ms = 0;
  double total_time_ms = 0;
  size_t total_workspace_bytes = 0;  // reserved by the division
};

// Returns the workspace of a kernel if nothing is divided: its limit; with a budget, all of it if
// kernels take turns, or an equal share if each stream, or each kernel on each stream, has its own
// segment. None: no limit.
std::optional<size_t> UndividedLimit(const WorkspaceTable& plan, const Options& options);

// Writes `ucudnn-workspace-table`: everything.
std::string FormatWorkspaceTable(const WorkspaceTable& plan, const Options& options);

// Writes `ucudnn-workspace-plan`, which a run follows. Kernels with the same segment number share
// workspace; null is the caller's own, and each of the segment's lanes has a copy. order_after is
// empty, because the stream orders all kernels.
std::string FormatWorkspacePlan(const WorkspaceTable& plan, const Options& options);

void PrintWorkspaceTable(const WorkspaceTable& plan, const Options& options, bool desirable_sets);

}  // namespace ucudnn::command
