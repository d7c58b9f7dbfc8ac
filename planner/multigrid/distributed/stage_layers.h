// The layers of a stage that one rank has, with their adjoint, over a propagator each: whoever
// implements this decides where they are computed. Thread-compatible.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/distributed/state_exchange.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/parameters.h"
#include "planner/multigrid/propagator.h"
#include "planner/multigrid/residual_chain.h"
#include "planner/multigrid/timed_propagator.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

// Layers begin..end - 1, counted from a rank's first one.
struct LayerSpan {
  int begin = 0;
  int end = 0;
};

// The two chains that layers make.
enum class Direction { kForward, kAdjoint };

// What layers are made of. All outlives them.
struct StagePart {
  const ResidualChain& chain;
  const Stage& stage;  // of the part's layers alone, but where `used` says which
  const Parameters& parameters;
  const Hierarchy& hierarchy;
  CoarseOperator coarse = CoarseOperator::kInject;
  int batch = 1;
  double h = 1;
  // The layers that the levels call for, where those are not all; only they have parameters.
  std::span<const int> used = {};
  bool has_gradients = true;  // AddGradients will be called
  Storage storage = Storage::kAll;
  bool notes_timeline = false;  // of the chain's steps

  int64_t state_size() const { return stage.shape.Features() * batch; }
};

class StageLayers {
 public:
  // The run that computes gradients.
  static constexpr RunKey kGradients = {BlockSystem::kPhases};

  virtual ~StageLayers() = default;

  // The adjoint's hierarchy is the mirrored one.
  const Hierarchy& hierarchy(Direction direction) const {
    return direction == Direction::kForward ? part_.hierarchy : mirrored_;
  }

  // The chain's states, or its adjoint's over the hierarchy mirrored, which come behind them: once
  // each. The layers outlive them.
  Result<std::unique_ptr<BlockSystem>> MakeSystem(Direction direction, const PartTraits& traits);
  // A state of unspecified value that any system of these layers takes.
  Result<State> Create() { return chain().Create(); }

  // The parameters as the host has them now are those of both chains.
  virtual Status LoadWeights() = 0;
  // As StageSolver has them. The gradient is `factor` times what AddGradients adds.
  virtual bool keeps_weights() const { return false; }
  virtual Status Descend(double factor, const Descent& descent);
  virtual Status ReadWeights(Parameters& parameters);
  // The weights of some layers, in rising order, go to the rank `to`, or come from the rank `from`,
  // or from layers of this rank, whose `theirs` become `own`. REQUIRES: keeps_weights.
  virtual Status SendWeights(int to, std::span<const int> layers);
  virtual Status ReceiveWeights(int from, std::span<const int> layers);
  virtual Status TakeWeights(StageLayers& from, std::span<const int> theirs,
                             std::span<const int> own);
  // Between the host and a state; wait.
  virtual Status Upload(const double* numbers, State to) = 0;
  virtual Status Download(State from, double* numbers) = 0;
  // Waits for all that lanes were given.
  Status Wait() { return chain().Wait(); }

  // Whether adjoints are solved scaled, so that their numbers are in the middle of what states can
  // hold (scaled_solve.h): the same on all ranks.
  virtual bool scales_adjoints() const { return false; }
  // The states have changed since they were read last. REQUIRES, as what follows: both systems.
  void StatesChanged(Direction direction);
  // State `number` of the chain, for others to read. It holds until the next call.
  Result<State> ReadState(int number) { return forward_.trajectory->At(number, 0); }
  // The adjoint is linearised at `states`, which have the values that they will be read with; null:
  // at the chain's own. Before each solve of it.
  Status LineariseAt(StateReader* states);
  // gradient of the nodes of `layers` += factor * what the states before them and the adjoints
  // behind them give; waits. Spans follow each other from layer 0 on: those of later ones may be
  // added before. REQUIRES: a part with gradients.
  virtual Status AddGradients(LayerSpan layers, double factor, Parameters& gradient);

  // Notes of the forward solve that follows when lanes run which steps; null where nobody asked.
  TimedPropagator* timed() { return timed_.get(); }

 protected:
  StageLayers(const StagePart& part, Lanes& lanes)
      : part_(part), mirrored_(part.hierarchy.Mirrored()), lanes_(lanes) {}

  virtual Propagator& chain() = 0;
  // Made at the first call.
  virtual Result<Propagator*> Adjoint() = 0;
  // Whoever runs steps of the adjoint reads `states`.
  virtual void ReadLinearised(StateReader& states) = 0;
  // What is read has changed.
  virtual Status Linearise() { return Status::Ok(); }
  // The gradient of layer `layer` at `state`, from `adjoint`; `sum` is where it is added, at once
  // or by FinishGradients.
  struct GradientSum {
    double factor;
    Parameters& gradient;
  };
  virtual Status AddGradient(int layer, State state, State adjoint, const GradientSum& sum,
                             int lane) = 0;
  virtual Status FinishGradients([[maybe_unused]] LayerSpan layers,
                                 [[maybe_unused]] const GradientSum& sum) {
    return Status::Ok();
  }
  // Runs AddGradient for these layers.
  Status RunGradients(LayerSpan layers, const GradientSum& sum);

  const StagePart& part() const { return part_; }
  int layers() const { return part_.hierarchy.level(0).steps; }

 private:
  // One of the two chains. Layer n's adjoint is number layers() - 1 - n.
  struct Chain {
    Propagator* propagator = nullptr;
    BlockSystem* system = nullptr;  // another's
    std::optional<Trajectory> trajectory;
  };
  Chain& Of(Direction direction) { return direction == Direction::kForward ? forward_ : adjoint_; }

  const StagePart part_;
  const Hierarchy mirrored_;
  Lanes& lanes_;
  std::unique_ptr<TimedPropagator> timed_;
  Chain forward_, adjoint_;
  bool is_prepared_ = false;  // the adjoint
};

// What the parts of one rank have in common: lanes that follow each other, and messages.
class StageMaker {
 public:
  virtual ~StageMaker() = default;
  virtual Result<std::unique_ptr<StageLayers>> Make(const StagePart& part) = 0;
  virtual StateExchange& exchange() = 0;
};

}  // namespace ucudnn::multigrid
