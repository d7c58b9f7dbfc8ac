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

// A kernel's desirable set, in ascending order of workspace and descending order of time. Not
// empty.
using DesirableConfigurations = std::vector<Configuration>;

// A division of a budget among kernels that run one after the other, as on one stream. For such
// kernels, kConcurrent has the same meaning as kShared.
struct DividedWorkspace {
  std::vector<size_t> chosen;  // for each kernel, an index into its desirable set
  size_t total_bytes = 0;      // ReservedBytes of the chosen configurations
  bool optimal = true;         // proven to be the fastest within the budget
  double gap_ms = 0;           // the most by which another division may be faster
};

// Returns the bytes that kernels with these workspaces reserve together. With kDisjoint, each
// kernel has its own segment, so this is their sum; otherwise they share one segment, so this is
// the largest.
size_t ReservedBytes(std::span<const size_t> workspace_bytes, WorkspaceDivision division);

// Says by how much a budget falls short of the kernels' smallest workspaces.
struct Shortage {
  size_t missing_bytes = 0;
  std::vector<size_t> kernels;  // kernels that cause the shortage, the largest need first
};

// Returns none if the budget suffices.
std::optional<Shortage> FindShortage(std::span<const DesirableConfigurations> kernels,
                                     size_t budget_bytes, WorkspaceDivision division);

// Chooses one configuration for each kernel so that together they fit the budget and the total time
// is least. `layers` says how many layers run each kernel, one after the other in the same
// workspace; if `layers` is empty, each kernel has one layer. Fails if there is a shortage, or if
// the solver fails.
Result<DividedWorkspace> DivideWorkspace(std::span<const DesirableConfigurations> kernels,
                                         size_t budget_bytes, WorkspaceDivision division,
                                         DivisionSolver& solver,
                                         std::span<const size_t> layers = {});

}  // namespace ucudnn::planning
