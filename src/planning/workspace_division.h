// Workspace Division (WD): one workspace budget for all kernels of a network. Pure functions, but
// for the solver that they are given. Source: mu-cuDNN, section III-C.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "convolution/configuration.h"
#include "planning/division_solver.h"

namespace ucudnn::planning {

// A kernel's desirable set: by rising workspace and falling time, not empty.
using DesirableConfigurations = std::vector<Configuration>;

// All kernels count as one stream here, so concurrent means shared.
struct DividedWorkspace {
  std::vector<size_t> chosen;  // of every kernel, the position in its desirable set
  size_t total_bytes = 0;      // reserved, see ReservedBytes
  bool optimal = true;         // proven
  double gap_ms = 0;           // no division is faster by more
};

// The bytes that kernels with these workspaces take together: the sum where each has a segment of
// its own (disjoint), the largest where they run one after the other in the same.
size_t ReservedBytes(std::span<const size_t> workspace_bytes, WorkspaceDivision division);

// A budget too small for the kernels' smallest workspaces.
struct Shortage {
  size_t missing_bytes = 0;
  std::vector<size_t> kernels;  // that want workspace none can spare, the largest need first
};

std::optional<Shortage> FindShortage(std::span<const DesirableConfigurations> kernels,
                                     size_t budget_bytes, WorkspaceDivision division);

// The least total time with exactly one configuration for each kernel inside the budget. `layers`
// says how many layers run each kernel, one after the other in the same workspace (empty: one
// each). An error when there is a shortage, or the solver fails.
Result<DividedWorkspace> DivideWorkspace(std::span<const DesirableConfigurations> kernels,
                                         size_t budget_bytes, WorkspaceDivision division,
                                         DivisionSolver& solver,
                                         std::span<const size_t> layers = {});

}  // namespace ucudnn::planning
