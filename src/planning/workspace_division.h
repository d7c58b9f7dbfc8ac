// Workspace Division (WD): one workspace budget for all kernels of a network. Pure, except for the
// solver that is passed. Source: mu-cuDNN, section III-C.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "options/options.h"
#include "planning/division_solver.h"

namespace ucudnn::planning {

// A kernel's desirable set, in ascending order of workspace and descending order of time; not
// empty.
using DesirableConfigurations = std::vector<Configuration>;

// A division of a budget. All kernels count as one stream here, so concurrent means shared.
struct DividedWorkspace {
  std::vector<size_t> chosen;  // for each kernel, a position in its desirable set
  size_t total_bytes = 0;      // see ReservedBytes
  bool optimal = true;         // proven to be the fastest
  double gap_ms = 0;           // no division is faster by more
};

// Returns the bytes that kernels with these workspaces reserve together: the sum if each has a
// segment of its own (disjoint), the largest if they take turns in one segment.
size_t ReservedBytes(std::span<const size_t> workspace_bytes, WorkspaceDivision division);

// Says that a budget is less than the kernels' smallest workspaces need.
struct Shortage {
  size_t missing_bytes = 0;
  std::vector<size_t> kernels;  // kernels that need workspace, the largest need first
};

std::optional<Shortage> FindShortage(std::span<const DesirableConfigurations> kernels,
                                     size_t budget_bytes, WorkspaceDivision division);

// Chooses one configuration for each kernel so that all fit the budget in the least total time.
// `layers` says how many layers run each kernel, one after the other in the same workspace; empty:
// one each. Fails if there is a shortage, or if the solver fails.
Result<DividedWorkspace> DivideWorkspace(std::span<const DesirableConfigurations> kernels,
                                         size_t budget_bytes, WorkspaceDivision division,
                                         DivisionSolver& solver,
                                         std::span<const size_t> layers = {});

}  // namespace ucudnn::planning
