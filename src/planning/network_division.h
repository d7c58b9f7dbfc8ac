// Workspace Division of a running network: one budget for all kernels that a program was seen to
// run, on all its lanes. The calls of a lane run one after the other; a handle on a stream is an
// example of a lane. Pure, except for the solver. Source: mu-cuDNN, section III-C, extended to
// several streams.
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
  double calls = 1;        // calls in one iteration, which multiply the time of `choices`
  std::vector<int> lanes;  // lanes on which the kernel runs, each once; not empty
};

// Reserved workspace, for one kernel on one lane or for all kernels of a lane.
struct Slot {
  int kernel = 0;  // index of a kernel, or kEveryKernel
  int lane = 0;
  size_t bytes = 0;

  static constexpr int kEveryKernel = -1;
  bool operator==(const Slot&) const = default;
};

struct DividedNetwork {
  std::vector<size_t> share_bytes;  // for each kernel, its share on each lane on which it runs
  std::vector<Slot> slots;          // slots of more than 0 bytes
  bool by_kernel = false;           // each slot is for one kernel
  // Kernels that have the same share. Each of the group's `lanes` lanes has a slot of this size.
  struct Group {
    std::vector<size_t> kernels;
    size_t lanes = 0;
  };
  std::vector<Group> groups;
  size_t total_bytes = 0;    // sum over all slots, because all slots may be in use at once
  double total_time_ms = 0;  // time of one iteration
  bool optimal = true;       // no division that `division` allows is faster
  double gap_ms = 0;         // no allowed division is faster by more than this
};

// Returns none if the budget suffices for the smallest workspaces that the kernels need on all
// their lanes. Otherwise returns the missing bytes, and the kernels that need workspace, the
// largest need first.
std::optional<Shortage> FindShortage(std::span<const NetworkKernel> kernels, size_t budget_bytes,
                                     WorkspaceDivision division);

// Returns the division whose slots fit the budget and whose iteration takes the least time. With
// kDisjoint, each kernel has a slot on each lane on which it runs. With kShared and kConcurrent,
// each lane has one slot, large enough for each kernel of the lane, and lanes that have a kernel in
// common have slots of one size. If the slots of kDisjoint are faster, or only they fit the budget,
// the result has them instead. The work besides the solver's is proportional to the number of all
// choices. Fails if a kernel has no choice or no lane, if there is a shortage, or if the solver
// fails.
Result<DividedNetwork> DivideNetwork(std::span<const NetworkKernel> kernels, size_t budget_bytes,
                                     WorkspaceDivision division, DivisionSolver& solver);

}  // namespace ucudnn::planning
