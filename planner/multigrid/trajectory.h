// The states of a solve by their number, for whoever reads them one after the other, as a
// linearised solve does: those that are not kept are computed again, a block at a time.
#pragma once

#include <vector>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

class Trajectory {
 public:
  // `states` outlives it; `hierarchy` is that of `states`, and `owner`, its propagator, creates
  // what blocks are computed into.
  static Result<Trajectory> Make(BlockSystem& states, const Hierarchy& hierarchy, Propagator& owner,
                                 int lanes);

  // State `number` of the finest level. It holds until the lane asks for one of another block.
  // Called by several threads at once, each with its lane; allocates nothing.
  Result<State> At(int number, int lane);
  // Forgets what was read: the states have changed, or may have.
  void Reset();

 private:
  struct Window {
    int block = -1;
    std::vector<State> states;
    std::vector<State> scratch;  // as many as F-points of a block that are not kept
  };

  Trajectory(BlockSystem& states, int coarsening) : states_(&states), coarsening_(coarsening) {}

  BlockSystem* states_;
  int coarsening_;
  std::vector<Window> windows_;  // by lane
};

}  // namespace ucudnn::multigrid
