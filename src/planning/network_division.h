// Workspace Division of a running network: one budget for all kernels that a program was seen to
// run, on all its lanes. A lane runs one call after the other, as a handle on a stream does. Pure,
// except for the solver. Source: mu-cuDNN, section III-C, extended to several streams.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "options/options.h"
#include "planning/division_solver.h"
#include "planning/workspace_division.h"

namespace ucudnn::planning {

struct NetworkKernel {
  // In ascending order of workspace and descending order of time, not empty.
  DesirableConfigurations choices;
  double calls = 1;        // calls in one iteration; its time counts this often
  std::vector<int> lanes;  // lanes that it runs on, each once; not empty
};

// Reserved workspace: for one kernel on one lane, or for all kernels of a lane.
struct Slot {
  int kernel = 0;  // a position, or kEveryKernel
  int lane = 0;
  size_t bytes = 0;

  static constexpr int kEveryKernel = -1;
  bool operator==(const Slot&) const = default;
};

struct DividedNetwork {
  std::vector<size_t> share_bytes;  // for each kernel, on each lane that it runs on
  std::vector<Slot> slots;          // none is empty
  bool by_kernel = false;           // each slot is for one kernel
  // Kernels that share one size, on all lanes of any of them.
  struct Group {
    std::vector<size_t> kernels;
    size_t lanes = 0;
  };
  std::vector<Group> groups;
  size_t total_bytes = 0;    // of all slots, since all may be in use at once
  double total_time_ms = 0;  // of one iteration
  bool optimal = true;       // proven, among the divisions that the mode allows
  double gap_ms = 0;         // no allowed division is faster by more
};

// Returns the missing bytes if the budget is less than the least that the kernels need on all their
// lanes; none if it suffices. Lists the kernels that need workspace, the largest need first.
std::optional<Shortage> FindShortage(std::span<const NetworkKernel> kernels, size_t budget_bytes,
                                     WorkspaceDivision division);

// Returns the division with the least time of an iteration whose slots fit the budget. disjoint: a
// slot for each kernel on each lane that it runs on. shared and concurrent: a slot for each lane,
// large enough for each of its kernels, with one size for lanes that have a kernel in common; or,
// if that is faster, the slots of disjoint. Beside the solver, it takes time proportional to the
// number of all choices. It fails if there is a shortage, or the solver fails.
Result<DividedNetwork> DivideNetwork(std::span<const NetworkKernel> kernels, size_t budget_bytes,
                                     WorkspaceDivision division, DivisionSolver& solver);

}  // namespace ucudnn::planning
