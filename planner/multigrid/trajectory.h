// The states of a solve by their number, for whoever reads them one after the other, as a
// linearised solve does: those that are not kept are computed again, a block at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// States by their number, of whoever has them.
class StateReader {
 public:
  virtual ~StateReader() = default;
  // Called by several threads at once, each with its lane.
  virtual Result<State> At(int number, int lane) = 0;
  // Forgets what was read: the states have changed, or may have.
  virtual void Reset() {}
};

class Trajectory : public StateReader {
 public:
  // `states` outlives it; `hierarchy` is that of `states`, and `owner`, its propagator, creates
  // what blocks are computed into.
  static Result<Trajectory> Make(BlockSystem& states, const Hierarchy& hierarchy, Propagator& owner,
                                 int lanes);

  // How many states Make creates.
  static int64_t StatesFor(const Hierarchy& hierarchy, int lanes, Storage storage);

  // State `number` of the finest level. It holds until the lane asks for one of another block.
  // Allocates nothing.
  Result<State> At(int number, int lane) override;
  void Reset() override;

 private:
  static constexpr int kNoBlock = -2;  // -1 is the one in front of the first C-point

  struct Window {
    int block = kNoBlock;
    std::vector<State> states;
    std::vector<State> scratch;  // as many as F-points of a block that are not kept
  };

  Trajectory(BlockSystem& states, const Level& finest) : states_(&states), finest_(finest) {}

  BlockSystem* states_;
  Level finest_;
  std::vector<Window> windows_;  // by lane
};

}  // namespace ucudnn::multigrid
