#include "planner/multigrid/distributed/block_layers.h"

#include <utility>

namespace ucudnn::multigrid {

Result<std::unique_ptr<ChainPart>> BlockLayers::MakeSystem(Direction direction,
                                                           const PartTraits& traits) {
  Chain& made = Of(direction);
  const Hierarchy& hierarchy = HierarchyOf(direction);
  made.propagator = &chain();
  if (direction == Direction::kAdjoint) {
    UCUDNN_ASSIGN_OR_RETURN(made.propagator, Adjoint());
  } else if (part_.notes_timeline) {
    timed_ = std::make_unique<TimedPropagator>(*made.propagator, hierarchy, lanes_.count());
    made.propagator = timed_.get();
  }
  UCUDNN_ASSIGN_OR_RETURN(BlockSystem system, BlockSystem::MakePart(*made.propagator, hierarchy,
                                                                    lanes_, part_.storage, traits));
  auto owned = std::make_unique<BlockSystem>(std::move(system));
  made.system = owned.get();
  if (direction == Direction::kForward) return std::unique_ptr<ChainPart>(std::move(owned));
  if (part_.has_gradients) {
    UCUDNN_ASSIGN_OR_RETURN(forward_.trajectory, Trajectory::Make(*forward_.system, part_.hierarchy,
                                                                  chain(), lanes_.count()));
    UCUDNN_ASSIGN_OR_RETURN(
        adjoint_.trajectory,
        Trajectory::Make(*made.system, hierarchy, *made.propagator, lanes_.count()));
  }
  return std::unique_ptr<ChainPart>(std::move(owned));
}

Status BlockLayers::CarryOver(Direction direction, const FirstStateChange& change) {
  const Chain& of = Of(direction);
  return multigrid::CarryOver(*of.system, HierarchyOf(direction), *of.propagator, lanes_, change);
}

void BlockLayers::StatesChanged(Direction direction) {
  if (Chain& of = Of(direction); of.trajectory) of.trajectory->Reset();
}

Status BlockLayers::LineariseAt(StateReader* states) {
  LineariseAdjointAt(states != nullptr ? *states : *forward_.trajectory);
  return Status::Ok();
}

}  // namespace ucudnn::multigrid
