// The plan of `ucudnn workspace`, and its output. All functions are pure, except that
// PrintWorkspaceTable writes to stdout.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command/offline_kernels.h"
#include "options/options.h"

namespace ucudnn::command {

// One configuration for each kernel: the fastest within the kernel's own limit (WR), or the choice
// within one budget for all kernels (WD).
struct WorkspaceTable {
  OfflineKernels network;      // the desirable sets are within the limit
  std::vector<size_t> chosen;  // by kernel: index of the choice in its desirable set
  // For each kernel of `network` (one per layer), its number in a run, counted from 0. A run cannot
  // distinguish layers with the same convolution and API, so these layers have the same number.
  std::vector<size_t> numbers;
  // With one budget, for each kernel: the number of its segment of the workspace, and the number of
  // copies of this segment, one for each lane. Kernels with the same segment share memory.
  std::vector<size_t> segments;
  std::vector<size_t> copies;
  size_t lanes = 1;    // number of different lanes of all kernels
  size_t shares = 1;   // number of equal parts of the budget (see UndividedLimit)
  std::string solver;  // empty if there was nothing to solve
  bool optimal = true;
  double gap_ms = 0;
  double total_time_ms = 0;
  size_t total_workspace_bytes = 0;  // workspace of all kernels together
};

// Returns the workspace that each undivided kernel may use; unset if there is no limit. Without a
// budget for all kernels this is options.workspace_limit. With a budget it is the smaller of this
// limit and budget / plan.shares.
std::optional<size_t> UndividedLimit(const WorkspaceTable& plan, const Options& options);

// Writes the format `ucudnn-workspace-table`, which has the complete plan.
std::string FormatWorkspaceTable(const WorkspaceTable& plan, const Options& options);

// Writes the format `ucudnn-workspace-plan`, which a run follows. With a budget for all kernels,
// each kernel has the number of its segment (see WorkspaceTable). Without one, the segment is null:
// the kernel uses its caller's workspace. The member order_after is empty, because the stream
// orders all kernels.
std::string FormatWorkspacePlan(const WorkspaceTable& plan, const Options& options);

void PrintWorkspaceTable(const WorkspaceTable& plan, const Options& options, bool desirable_sets);

}  // namespace ucudnn::command
