// Workspace Division of a running network (mu-cuDNN, section III-C, for more than one stream): one
// budget for all kernels that a program was seen to run, on all its lanes. A lane is what runs one
// call after the other: a handle on a stream. Pure, but for the solver.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "planning/division_solver.h"
#include "planning/workspace_division.h"

namespace ucudnn::planning {

struct NetworkKernel {
  DesirableConfigurations choices;  // by rising workspace and falling time, not empty
  double calls = 1;                 // in one iteration: what its time counts for
  std::vector<int> lanes;           // that it runs on, each once; not empty
};

// Workspace that stays reserved: of one kernel on one lane, or of all kernels of a lane.
struct Slot {
  int kernel = 0;  // the position; kEveryKernel: any of the lane's
  int lane = 0;
  size_t bytes = 0;

  static constexpr int kEveryKernel = -1;
  bool operator==(const Slot&) const = default;
};

struct DividedNetwork {
  std::vector<size_t> share_bytes;  // of every kernel: it may use as much, wherever it runs
  std::vector<Slot> slots;          // without empty ones
  bool by_kernel = false;           // each of them is one kernel's
  // Kernels that one size was chosen for, on all lanes of any of them.
  struct Group {
    std::vector<size_t> kernels;
    size_t lanes = 0;
  };
  std::vector<Group> groups;
  size_t total_bytes = 0;    // of all slots: any of them may be in use at once
  double total_time_ms = 0;  // of one iteration
  bool optimal = true;       // proven, among what the division allows
  double gap_ms = 0;         // nothing that it allows is faster by more
};

// What the kernels cannot do without, on all their lanes, is more than the budget. Of all that need
// any, the kernels, the largest need first.
std::optional<Shortage> FindShortage(std::span<const NetworkKernel> kernels, size_t budget_bytes,
                                     WorkspaceDivision division);

// The least time of an iteration with slots inside the budget. disjoint: a slot for every kernel on
// every lane it runs on. shared, concurrent: one for every lane, large enough for each of its
// kernels, where lanes that have a kernel in common get slots of one size; or, where that is
// faster, as disjoint. In time that grows as all choices together do, but for the solver's. An
// error when there is a shortage, or the solver fails.
Result<DividedNetwork> DivideNetwork(std::span<const NetworkKernel> kernels, size_t budget_bytes,
                                     WorkspaceDivision division, DivisionSolver& solver);

}  // namespace ucudnn::planning
