#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

Result<Trajectory> Trajectory::Make(BlockSystem& states, const Hierarchy& hierarchy,
                                    Propagator& owner, int lanes) {
  const int coarsening = hierarchy.level(0).coarsening;
  Trajectory made(states, hierarchy.level(0));
  made.windows_.resize(lanes);
  for (Window& window : made.windows_) {
    window.states.reserve(coarsening);
    if (states.storage() == Storage::kAll) continue;
    for (int i = 1; i < coarsening; ++i) {
      UCUDNN_ASSIGN_OR_RETURN(const State state, owner.Create());
      window.scratch.push_back(state);
    }
  }
  return made;
}

int64_t Trajectory::StatesFor(const Hierarchy& hierarchy, int lanes, Storage storage) {
  return storage == Storage::kAll ? 0 : int64_t{lanes} * (hierarchy.level(0).coarsening - 1);
}

void Trajectory::Reset() {
  for (Window& window : windows_) window.block = kNoBlock;
}

Result<State> Trajectory::At(int number, int lane) {
  Window& window = windows_[lane];
  const int block = finest_.BlockOf(number);
  if (block != window.block) {
    window.states.clear();
    window.block = block;
  }
  // Computes the block's states only up to `number`, because a reader may need no later state of
  // the block.
  const int index = number - finest_.FirstStateOf(block);
  UCUDNN_RETURN_IF_ERROR(states_->ReadOn(block, index + 1, window.scratch, lane, window.states));
  return window.states[index];
}

}  // namespace ucudnn::multigrid
