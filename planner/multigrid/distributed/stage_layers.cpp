#include "planner/multigrid/distributed/stage_layers.h"

#include <algorithm>
#include <utility>

namespace ucudnn::multigrid {

Result<std::unique_ptr<BlockSystem>> StageLayers::MakeSystem(Direction direction,
                                                             const PartTraits& traits) {
  Chain& made = Of(direction);
  const bool is_forward = direction == Direction::kForward;
  const Hierarchy& hierarchy = this->hierarchy(direction);
  made.propagator = &chain();
  if (!is_forward) {
    UCUDNN_ASSIGN_OR_RETURN(made.propagator, Adjoint());
  } else if (part_.notes_timeline) {
    timed_ = std::make_unique<TimedPropagator>(*made.propagator, hierarchy, lanes_.count());
    made.propagator = timed_.get();
  }
  UCUDNN_ASSIGN_OR_RETURN(BlockSystem system, BlockSystem::MakePart(*made.propagator, hierarchy,
                                                                    lanes_, part_.storage, traits));
  auto owned = std::make_unique<BlockSystem>(std::move(system));
  made.system = owned.get();
  if (is_forward) {
    UCUDNN_RETURN_IF_ERROR(made.propagator->Prepare([&made] { return made.system->RunPhases(); }));
  } else if (part_.has_gradients) {
    UCUDNN_ASSIGN_OR_RETURN(forward_.trajectory, Trajectory::Make(*forward_.system, part_.hierarchy,
                                                                  chain(), lanes_.count()));
    UCUDNN_ASSIGN_OR_RETURN(
        adjoint_.trajectory,
        Trajectory::Make(*made.system, hierarchy, *made.propagator, lanes_.count()));
  }
  return owned;
}

void StageLayers::StatesChanged(Direction direction) {
  if (Chain& of = Of(direction); of.trajectory) of.trajectory->Reset();
}

Status StageLayers::LineariseAt(StateReader* states) {
  ReadLinearised(states != nullptr ? *states : *forward_.trajectory);
  if (!is_prepared_) {
    Parameters none;
    UCUDNN_RETURN_IF_ERROR(adjoint_.propagator->Prepare([&]() -> Status {
      UCUDNN_RETURN_IF_ERROR(adjoint_.system->RunPhases());
      return part_.has_gradients ? RunGradients({0, layers()}, {1, none}) : Status::Ok();
    }));
    is_prepared_ = true;
  }
  return Linearise();
}

Status StageLayers::RunGradients(LayerSpan span, const GradientSum& sum) {
  const int coarsening = part_.hierarchy.level(0).coarsening;
  const int blocks = (span.end - span.begin + coarsening - 1) / coarsening;
  const auto add = [&](int block, int lane) -> Status {
    const int begin = span.begin + block * coarsening;
    for (int n = begin; n < std::min(begin + coarsening, span.end); ++n) {
      // The gradient of layer n needs the layer's input state and the adjoint of its output.
      UCUDNN_ASSIGN_OR_RETURN(const State state, forward_.trajectory->At(n, lane));
      UCUDNN_ASSIGN_OR_RETURN(const State adjoint, adjoint_.trajectory->At(layers() - 1 - n, lane));
      UCUDNN_RETURN_IF_ERROR(AddGradient(n, state, adjoint, sum, lane));
    }
    return Status::Ok();
  };
  return adjoint_.propagator->Run(kGradients, blocks, add, lanes_);
}

Status StageLayers::AddGradients(LayerSpan span, double factor, Parameters& gradient) {
  const GradientSum sum = {factor, gradient};
  UCUDNN_RETURN_IF_ERROR(RunGradients(span, sum));
  return FinishGradients(span, sum);
}

}  // namespace ucudnn::multigrid
