// Who solves a stage of a network, both ways, as one of the ranks that have its layers sees it.
#pragma once

#include <memory>
#include <optional>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/distributed/partition.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/parameters.h"
#include "planner/multigrid/residual_chain.h"
#include "planner/multigrid/solver.h"
#include "planner/multigrid/timed_propagator.h"

namespace ucudnn::multigrid {

// All ranks make and call it in the same order (peers.h). Thread-compatible.
class StageSolver {
 public:
  virtual ~StageSolver() = default;

  // The parameters as the host has them now are what it solves with. Before the first solve, and
  // whenever the host has changed them.
  virtual Status LoadWeights() = 0;
  // Whether the solver keeps what LoadWeights brought, and its momentum, where it computes: then
  // Descend changes the parameters, and the host's are those of the last ReadWeights.
  virtual bool keeps_weights() const { return false; }
  // From the first state, on the first rank, to the last one, on the last: of all images, [batch,
  // C, H, W]. Others' pointers are not used. The solution is the same on all ranks.
  virtual Result<Solution> SolveForward(const double* first, const SolveOptions& options,
                                        double* last) = 0;
  // From the adjoint of the last state to that of the first one, at the states of the last forward
  // solve.
  virtual Result<Solution> SolveBackward(const double* last_adjoint, const SolveOptions& options,
                                         double* first_adjoint) = 0;
  // The functions below are about the gradients of this rank's layers by both solves.
  // REQUIRES: SolveBackward.

  // Adds them to `gradient`, and tells `watch` of some after the other.
  virtual Status AddGradients(Parameters& gradient, const GradientWatch& watch) = 0;
  // The parameters descend along them, or along their mean over all replicas.
  // REQUIRES: keeps_weights.
  virtual Status Descend(const Descent& descent) = 0;
  // The parameters of this rank's layers, as single precision has them. REQUIRES: keeps_weights.
  virtual Status ReadWeights(Parameters& parameters) = 0;
  // Of the last forward solve, of this rank's layers; none where nobody asked for it.
  virtual std::optional<CycleTimeline> Timeline() const { return std::nullopt; }
};

// A stage as its solver is made for it. What is referred to outlives the solver.
struct StageToSolve {
  const ResidualChain& chain;
  const Stage& stage;
  const Parameters& parameters;  // of this rank's layers
  const Hierarchy& hierarchy;
  const Partition& partition;  // this rank is one of its ranks
  Peers& peers;
  CoarseOperator coarse = CoarseOperator::kInject;
  Storage storage = Storage::kAll;
  int batch = 1;
  double h = 1;
  // What solves will ask for, where something is chosen by measuring.
  SolveOptions forward = {}, backward = {};
  bool trains = false;          // SolveBackward will be called, too
  bool notes_timeline = false;  // of forward solves by cycles
  // The ranks that have these layers of other replicas, whose gradients Descend averages; null:
  // there is one replica.
  Peers* replicas = nullptr;

  int steps() const { return static_cast<int>(stage.steps.size()); }
};

class StageSolvers {
 public:
  virtual ~StageSolvers() = default;
  virtual Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage) = 0;
};

}  // namespace ucudnn::multigrid
