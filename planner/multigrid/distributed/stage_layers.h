// The layers of a stage that one rank has, as a chain and its adjoint, each on a propagator. The
// implementation decides where the layers are computed. Thread-compatible.
#pragma once

#include <functional>
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

// Layers begin to end - 1 of a rank, where layer 0 is the rank's first layer.
struct LayerSpan {
  int begin = 0;
  int end = 0;
};

// Selects the chain of the layers, or the adjoint of this chain.
enum class Direction { kForward, kAdjoint };

// The data from which a StageLayers is made. Everything to which it refers must outlive the
// StageLayers.
struct StagePart {
  const ResidualChain& chain;
  const Stage& stage;  // has only the part's layers, unless `used` selects layers
  const Parameters& parameters;
  const Hierarchy& hierarchy;
  CoarseOperator coarse = CoarseOperator::kInject;
  int batch = 1;
  double h = 1;
  // The layers that the levels apply; empty if they apply all layers. Only the applied layers have
  // parameters.
  std::span<const int> used = {};
  bool has_gradients = true;  // whether AddGradients will be called
  Storage storage = Storage::kAll;
  bool notes_timeline = false;  // whether the times of the chain's steps are recorded

  int64_t state_size() const { return stage.shape.Features() * batch; }
};

// The weights and the momentum of layers, kept where the layers are computed: for example in a
// device's memory.
class KeptWeights {
 public:
  virtual ~KeptWeights() = default;
  // Moves the weights as StageSolver::Descend does, along `factor` times the gradient that
  // AddGradients would add.
  virtual Status Descend(double factor, const Descent& descent) = 0;
  virtual Status Read(Parameters& parameters) = 0;
  // Move the weights of some layers, which are in ascending order. Send moves them to rank `to`,
  // Receive from rank `from`. Take moves them from the layers `theirs` of another object on this
  // rank to the layers `own`.
  virtual Status Send(int to, std::span<const int> layers) = 0;
  virtual Status Receive(int from, std::span<const int> layers) = 0;
  virtual Status Take(KeptWeights& from, std::span<const int> theirs, std::span<const int> own) = 0;
};

class StageLayers {
 public:
  // The key of the run that computes gradients.
  static constexpr RunKey kGradients = {BlockSystem::kPhases};

  virtual ~StageLayers() = default;

  // Returns the hierarchy of the chain, or the mirrored hierarchy of the adjoint.
  const Hierarchy& hierarchy(Direction direction) const {
    return direction == Direction::kForward ? part_.hierarchy : mirrored_;
  }

  // Makes the states of the chain, or of the adjoint on the mirrored hierarchy. Called once for the
  // chain, and then at most once for the adjoint. A call that failed may be repeated. The layers
  // must outlive the states.
  Result<std::unique_ptr<BlockSystem>> MakeSystem(Direction direction, const PartTraits& traits);
  // Creates a state of unspecified value for any system of these layers.
  Result<State> Create() { return chain().Create(); }

  // Loads the host's current parameters, for the chain and the adjoint.
  virtual Status LoadWeights() = 0;
  // Returns the weights that the layers keep; null if the layers use the host's weights.
  virtual KeptWeights* kept_weights() { return nullptr; }
  // Copy numbers between the host and a state, and wait.
  virtual Status Upload(const double* numbers, State to) = 0;
  virtual Status Download(State from, double* numbers) = 0;
  // Waits for all work of all lanes.
  Status Wait() { return chain().Wait(); }

  // Returns whether adjoints are scaled before they are solved. Without a scale, small numbers
  // would lose bits in a number type with few exponents. All ranks return the same.
  virtual bool scales_adjoints() const { return false; }
  // Must be called when the states of a chain have changed since they were read. REQUIRES of this
  // function and the following ones: the systems of the chain and of the adjoint exist.
  void StatesChanged(Direction direction);
  // Returns state `number` of the chain. It is valid until the next call of this function.
  Result<State> ReadState(int number) { return forward_.trajectory->At(number, 0); }
  // Linearises the adjoint at `states`, or at the chain's own states if `states` is null. Called
  // before each solve of the adjoint. REQUIRES: the states already have the values at which the
  // solve is linearised.
  Status LineariseAt(StateReader* states);
  // Computes the gradient of `layers` from the input states of the layers and the adjoints of their
  // outputs. Adds `factor` times this gradient to `gradient`, and waits. Successive calls have
  // successive spans, from layer 0 on. A call may add the gradients of later spans in advance.
  // REQUIRES: StagePart::has_gradients.
  virtual Status AddGradients(LayerSpan layers, double factor, Parameters& gradient);

  // Returns the object that records the times of the steps of the next forward solve; null unless
  // StagePart::notes_timeline.
  TimedPropagator* timed() { return timed_.get(); }

 protected:
  StageLayers(const StagePart& part, Lanes& lanes)
      : part_(part), mirrored_(part.hierarchy.Mirrored()), lanes_(lanes) {}

  virtual Propagator& chain() = 0;
  // Returns the adjoint, which the first call of this function makes.
  virtual Result<Propagator*> Adjoint() = 0;
  // Makes steps of the adjoint read `states`.
  virtual void ReadLinearised(StateReader& states) = 0;
  // Reads the states at which the adjoint is linearised, after they have changed.
  virtual Status Linearise() { return Status::Ok(); }
  // AddGradient computes the gradient of layer `layer` at `state`, from `adjoint`. Either
  // AddGradient or FinishGradients adds the gradient to `sum`.
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
  // Calls AddGradient for each of `layers`.
  Status RunGradients(LayerSpan layers, const GradientSum& sum);

  const StagePart& part() const { return part_; }
  int layers() const { return part_.hierarchy.level(0).steps; }

 private:
  // The chain or its adjoint. The adjoint of layer n is step layers() - 1 - n.
  struct Chain {
    Propagator* propagator = nullptr;
    BlockSystem* system = nullptr;  // owned by the caller of MakeSystem
    std::optional<Trajectory> trajectory;
  };
  Chain& Of(Direction direction) { return direction == Direction::kForward ? forward_ : adjoint_; }

  const StagePart part_;
  const Hierarchy mirrored_;
  Lanes& lanes_;
  std::unique_ptr<TimedPropagator> timed_;
  Chain forward_, adjoint_;
  bool is_prepared_ = false;  // whether the adjoint's Propagator::Prepare has succeeded
};

// Makes the parts of one rank, which share lanes, and holds the exchange of states between ranks.
struct StageMaker {
  std::function<Result<std::unique_ptr<StageLayers>>(const StagePart& part)> make;
  std::shared_ptr<StateExchange> exchange;
};

}  // namespace ucudnn::multigrid
