// The plan that `ucudnn workspace` makes, and how it shows it. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "command/json.h"
#include "command/offline_kernels.h"

namespace ucudnn::command {

// One configuration of each kernel: the fastest within its own limit (WR), or within one budget for
// all (WD).
struct WorkspaceTable {
  OfflineKernels network;       // desirable sets within the limit
  std::vector<size_t> chosen;   // of each kernel, the position in its desirable set
  std::vector<size_t> numbers;  // of each kernel; layers of one shape are one kernel to a run
  // By kernel, where there is one budget. Kernels with the same segment share it, in as many copies
  // as there are lanes that they were seen on.
  std::vector<size_t> segments;
  std::vector<size_t> copies;
  size_t lanes = 1;    // that any kernel was seen on
  size_t shares = 1;   // of the budget, were each of one size: UndividedLimit
  std::string solver;  // empty: nothing was to be solved
  bool optimal = true;
  double gap_ms = 0;
  double total_time_ms = 0;
  size_t total_workspace_bytes = 0;  // reserved, as the division reserves
};

// The workspace that a kernel has where nothing is divided: its limit, and of a budget all of it
// where kernels take turns, an equal share where each stream, or each kernel on each, has a segment
// of its own. None: no ceiling.
std::optional<size_t> UndividedLimit(const WorkspaceTable& plan, const Options& options);

// `ucudnn-workspace-table`: everything.
Json WorkspaceTableJson(const WorkspaceTable& plan, const Options& options);

// `ucudnn-workspace-plan`: what a run follows. Kernels with the same segment number share
// workspace; null is the caller's own, and each of the segment's lanes has a copy. order_after is
// empty: all are ordered by their stream.
Json WorkspacePlanJson(const WorkspaceTable& plan, const Options& options);

void PrintWorkspaceTable(const WorkspaceTable& plan, const Options& options, bool desirable_sets);

}  // namespace ucudnn::command
