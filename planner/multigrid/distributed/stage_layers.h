// The layers of a stage that one rank has, with their adjoint: whoever implements this decides
// where they are computed and where their states lie. Thread-compatible.
#pragma once

#include <memory>
#include <span>

#include "base/status.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/distributed/state_exchange.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/parameters.h"
#include "planner/multigrid/propagator.h"
#include "planner/multigrid/residual_chain.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

// Layers begin..end - 1, counted from a rank's first one.
struct LayerSpan {
  int begin = 0;
  int end = 0;
};

class StageLayers {
 public:
  virtual ~StageLayers() = default;

  virtual Propagator& chain() = 0;
  // Over the hierarchy mirrored; made at the first call.
  virtual Result<Propagator*> Adjoint() = 0;
  // What the adjoint is linearised at; outlives the solves that follow. REQUIRES: Adjoint.
  virtual void LineariseAt(StateReader& states) = 0;

  // The parameters as they are now are those of chain and adjoint.
  virtual Status LoadWeights() = 0;

  // Between the host and a state; wait.
  virtual Status Upload(const double* numbers, State to) = 0;
  virtual Status Download(State from, double* numbers) = 0;
  // By what an adjoint is multiplied that begins with these numbers, so that its own are in the
  // middle of what states can hold: a power of two.
  virtual double AdjointScale(std::span<const double> numbers) const {
    (void)numbers;
    return 1;
  }

  // gradient of the nodes of `layers` += factor * what the states before them and the adjoints
  // behind them give; waits. Layer n's adjoint is number N - 1 - n of N. REQUIRES: Adjoint, of a
  // part with gradients.
  virtual Status AddGradients(LayerSpan layers, StateReader& states, StateReader& adjoints,
                              double factor, Parameters& gradient) = 0;
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

  int64_t state_size() const { return stage.shape.Features() * batch; }
};

// What the parts of one rank have in common: lanes that follow each other, and messages.
class StageMaker {
 public:
  virtual ~StageMaker() = default;
  virtual Result<std::unique_ptr<StageLayers>> Make(const StagePart& part) = 0;
  virtual Lanes& lanes() = 0;
  virtual StateExchange& exchange() = 0;
};

}  // namespace ucudnn::multigrid
