// The layers of a stage that one rank has, with their adjoint: whoever implements this decides
// where they are computed and where their states lie. Thread-compatible.
#pragma once

#include <memory>
#include <span>

#include "base/status.h"
#include "planner/multigrid/carried_start.h"
#include "planner/multigrid/chain_part.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/distributed/state_exchange.h"
#include "planner/multigrid/hierarchy.h"
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

class StageLayers {
 public:
  virtual ~StageLayers() = default;

  // The chain's states, or its adjoint's over the hierarchy mirrored, which come behind them: once
  // each. The layers outlive them.
  virtual Result<std::unique_ptr<ChainPart>> MakeSystem(Direction direction,
                                                        const PartTraits& traits) = 0;
  // A state of unspecified value that any system of these layers takes.
  virtual Result<State> Create() = 0;

  // The parameters as they are now are those of both chains.
  virtual Status LoadWeights() = 0;
  // Between the host and a state; wait.
  virtual Status Upload(const double* numbers, State to) = 0;
  virtual Status Download(State from, double* numbers) = 0;
  // Waits for all that lanes were given.
  virtual Status Wait() = 0;
  // Adds what the first state changes by to all states (carried_start.h).
  virtual Status CarryOver(Direction direction, const FirstStateChange& change) = 0;

  // Whether adjoints are solved scaled, so that their numbers are in the middle of what states can
  // hold (scaled_solve.h): the same on all ranks.
  virtual bool scales_adjoints() const { return false; }
  // The states have changed since they were read last. REQUIRES, as what follows: both systems.
  virtual void StatesChanged(Direction direction) = 0;
  // State `number` of the chain, for others to read. It holds until the next call.
  virtual Result<State> ReadState(int number) = 0;
  // The adjoint is linearised at `states`, which have the values that they will be read with; null:
  // at the chain's own. Before each solve of it.
  virtual Status LineariseAt(StateReader* states) = 0;
  // gradient of the nodes of `layers` += factor * what the states before them and the adjoints
  // behind them give; waits. Spans follow each other from layer 0 on: those of later ones may be
  // added before. REQUIRES: a part with gradients.
  virtual Status AddGradients(LayerSpan layers, double factor, Parameters& gradient) = 0;

  // Notes of the forward solve that follows when lanes run which steps; null where nobody asked.
  virtual TimedPropagator* timed() { return nullptr; }
};

// What layers are made of. All outlives them.
struct StagePart {
  const ResidualChain& chain;
  const Stage& stage;  // of the part's layers alone, but where `used` says which
  const Parameters& parameters;
  const Hierarchy& hierarchy;
  const Hierarchy& mirrored;
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

// What the parts of one rank have in common: lanes that follow each other, and messages.
class StageMaker {
 public:
  virtual ~StageMaker() = default;
  virtual Result<std::unique_ptr<StageLayers>> Make(const StagePart& part) = 0;
  virtual StateExchange& exchange() = 0;
};

}  // namespace ucudnn::multigrid
