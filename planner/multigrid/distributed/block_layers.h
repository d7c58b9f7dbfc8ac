// Layers whose states are in blocks that run on lanes, over a propagator each of the chain and its
// adjoint.
#pragma once

#include <memory>
#include <optional>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/distributed/stage_layers.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/timed_propagator.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

class BlockLayers : public StageLayers {
 public:
  Result<std::unique_ptr<ChainPart>> MakeSystem(Direction direction,
                                                const PartTraits& traits) override;
  Result<State> Create() override { return chain().Create(); }
  Status Wait() override { return chain().Wait(); }
  Status CarryOver(Direction direction, const FirstStateChange& change) override;
  void StatesChanged(Direction direction) override;
  Result<State> ReadState(int number) override { return forward_.trajectory->At(number, 0); }
  Status LineariseAt(StateReader* states) override;
  TimedPropagator* timed() override { return timed_.get(); }

 protected:
  BlockLayers(const StagePart& part, Lanes& lanes) : part_(part), lanes_(lanes) {}

  virtual Propagator& chain() = 0;
  // Made at the first call.
  virtual Result<Propagator*> Adjoint() = 0;
  virtual void LineariseAdjointAt(StateReader& states) = 0;

  const StagePart& part() const { return part_; }
  Lanes& lanes() { return lanes_; }
  int layers() const { return part_.hierarchy.level(0).steps; }
  int coarsening() const { return part_.hierarchy.level(0).coarsening; }
  // Of both systems. Layer n's adjoint is number layers() - 1 - n.
  Trajectory& states() { return *forward_.trajectory; }
  Trajectory& adjoints() { return *adjoint_.trajectory; }

 private:
  // One of the two chains.
  struct Chain {
    Propagator* propagator = nullptr;
    BlockSystem* system = nullptr;  // another's
    std::optional<Trajectory> trajectory;
  };
  Chain& Of(Direction direction) { return direction == Direction::kForward ? forward_ : adjoint_; }
  const Hierarchy& HierarchyOf(Direction direction) const {
    return direction == Direction::kForward ? part_.hierarchy : part_.mirrored;
  }

  const StagePart part_;
  Lanes& lanes_;
  std::unique_ptr<TimedPropagator> timed_;
  Chain forward_, adjoint_;
};

}  // namespace ucudnn::multigrid
