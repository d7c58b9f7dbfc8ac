// The plan of `ucudnn workspace`, and its output. Only PrintWorkspaceTable writes something; all
// other functions are pure.
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
  std::vector<size_t> chosen;  // by kernel: position in its desirable set
  // For each kernel of `network` (one per layer), the number of the kernel when the program runs,
  // counted from 0. A run cannot distinguish layers with the same convolution and API, so these
  // have the same number.
  std::vector<size_t> numbers;
  // With one budget: the segment of each kernel, and the number of copies of that segment. Kernels
  // with the same segment share its memory; each lane of the segment has a copy.
  std::vector<size_t> segments;
  std::vector<size_t> copies;
  size_t lanes = 1;    // number of lanes on which any kernel was seen
  size_t shares = 1;   // number of equal parts of the budget (see UndividedLimit)
  std::string solver;  // empty if there was nothing to solve
  bool optimal = true;
  double gap_ms = 0;
  double total_time_ms = 0;
  size_t total_workspace_bytes = 0;  // bytes that the division reserves
};

// Returns the workspace that each undivided kernel may use; none if there is no limit. Without a
// budget this is the limit of a kernel. With a budget it is that limit or the kernel's part,
// whichever is smaller. If kernels take turns, the part is all of the budget. If each stream, or
// each kernel on each stream, has a segment of its own, the part is an equal share.
std::optional<size_t> UndividedLimit(const WorkspaceTable& plan, const Options& options);

// Writes the format `ucudnn-workspace-table`, which has all of the plan.
std::string FormatWorkspaceTable(const WorkspaceTable& plan, const Options& options);

// Writes the format `ucudnn-workspace-plan`, which a run follows. Kernels with the same segment
// number share workspace; each lane of the segment has a copy of it. A null segment means the
// caller's own workspace. order_after is empty, because the stream orders all kernels.
std::string FormatWorkspacePlan(const WorkspaceTable& plan, const Options& options);

void PrintWorkspaceTable(const WorkspaceTable& plan, const Options& options, bool desirable_sets);

}  // namespace ucudnn::command
