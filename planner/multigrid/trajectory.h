// The states of a solve by number, for readers that read them in order, such as a linearised solve.
// States that are not kept are computed again, one block at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// Provides states by their number.
class StateReader {
 public:
  virtual ~StateReader() = default;
  // Returns state `number`. Several threads may call it at once, each with its own lane.
  virtual Result<State> At(int number, int lane) = 0;
  // Drops the states that were read, because they may have changed.
  virtual void Reset() {}
};

class Trajectory : public StateReader {
 public:
  // `states` must outlive the trajectory; `hierarchy` is the hierarchy of `states`. `owner`, the
  // propagator of `states`, creates the buffers into which blocks are computed.
  static Result<Trajectory> Make(BlockSystem& states, const Hierarchy& hierarchy, Propagator& owner,
                                 int lanes);

  // Returns the number of states that Make creates.
  static int64_t StatesFor(const Hierarchy& hierarchy, int lanes, Storage storage);

  // Returns state `number` of the finest level. It is valid until the lane reads a state of another
  // block. Allocates nothing.
  Result<State> At(int number, int lane) override;
  void Reset() override;

 private:
  static constexpr int kNoBlock = -2;  // -1 is the block in front of the first C-point

  struct Window {
    int block = kNoBlock;
    std::vector<State> states;
    std::vector<State> scratch;  // one for each F-point of a block, if F-points are not kept
  };

  Trajectory(BlockSystem& states, const Level& finest) : states_(&states), finest_(finest) {}

  BlockSystem* states_;
  Level finest_;
  std::vector<Window> windows_;  // by lane
};

}  // namespace ucudnn::multigrid
