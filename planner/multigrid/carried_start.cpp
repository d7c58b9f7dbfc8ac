#include "planner/multigrid/carried_start.h"

#include <vector>

namespace ucudnn::multigrid {

Status CarryOver(BlockSystem& states, const Hierarchy& hierarchy, Propagator& propagator,
                 Lanes& lanes, const FirstStateChange& change) {
  const Level& finest = hierarchy.level(0);
  std::vector<std::vector<State>> kept(lanes.count());
  // Block -1 is what is in front of the first C-point.
  const int first_block = finest.BlockOf(0);
  UCUDNN_RETURN_IF_ERROR(
      lanes.ForEach(finest.blocks() + 1 - first_block, [&](int task, int lane) -> Status {
        std::vector<State>& of_block = kept[lane];
        // Nothing of what is read is computed.
        if (states.storage() == Storage::kAll) {
          UCUDNN_RETURN_IF_ERROR(states.ReadBlock(first_block + task, {}, lane, of_block));
        } else {
          of_block.clear();
          UCUDNN_RETURN_IF_ERROR(states.ReadOn(first_block + task, 1, {}, lane, of_block));
        }
        for (const State state : of_block) {
          if (state == change.from) continue;
          UCUDNN_RETURN_IF_ERROR(propagator.Combine(state, 1, 1, change.to, lane));
          UCUDNN_RETURN_IF_ERROR(propagator.Combine(state, 1, -1, change.from, lane));
        }
        return Status::Ok();
      }));
  return propagator.Join();
}

}  // namespace ucudnn::multigrid
