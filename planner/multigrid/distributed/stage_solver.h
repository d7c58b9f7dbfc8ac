// One stage of a network, solved both ways by the ranks that have its layers, as one of them sees
// it: its own layers, wherever they are computed (stage_layers.h), and of one rank those of the
// levels that it solves for all.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/distributed_system.h"
#include "planner/multigrid/distributed/partition.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/distributed/stage_layers.h"
#include "planner/multigrid/scaled_solve.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

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

// All ranks make and call it in the same order (peers.h). Thread-compatible.
class StageSolver {
 public:
  static Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage,
                                                   std::unique_ptr<StageMaker> maker);
  ~StageSolver();

  // The parameters as the host has them now are what it solves with. Before the first solve, and
  // whenever the host has changed them.
  Status LoadWeights();
  // Whether the solver keeps what LoadWeights brought, and its momentum, where it computes: then
  // Descend changes the parameters, and the host's are those of the last ReadWeights.
  bool keeps_weights() const { return layers_->keeps_weights(); }
  // From the first state, on the first rank, to the last one, on the last: of all images, [batch,
  // C, H, W]. Others' pointers are not used. The solution is the same on all ranks.
  Result<Solution> SolveForward(const double* first, const SolveOptions& options, double* last);
  // From the adjoint of the last state to that of the first one, at the states of the last forward
  // solve.
  Result<Solution> SolveBackward(const double* last_adjoint, const SolveOptions& options,
                                 double* first_adjoint);
  // The functions below are about the gradients of this rank's layers by both solves.
  // REQUIRES: SolveBackward.

  // Adds them to `gradient`, and tells `watch` of some after the other.
  Status AddGradients(Parameters& gradient, const GradientWatch& watch);
  // The parameters descend along them, or along their mean over all replicas.
  // REQUIRES: keeps_weights.
  Status Descend(const Descent& descent);
  // The parameters of this rank's layers, as single precision has them. REQUIRES: keeps_weights.
  Status ReadWeights(Parameters& parameters) { return layers_->ReadWeights(parameters); }
  // When this rank's layers ran in the last forward solve; none where nobody asked for it.
  std::optional<CycleTimeline> Timeline() const;

 private:
  // The layers whose weights the gathered levels read, and the states at which their adjoint is
  // linearised, both in rising order.
  struct GatheredNeeds {
    std::vector<int> layers;
    std::vector<int> states;
  };
  // States of the whole chain by their number, as other ranks sent them.
  class GatheredStates : public StateReader {
   public:
    Result<State> At(int number, int) override { return states[number]; }
    std::vector<State> states;
  };
  // One way of solving: the chain's states, or its adjoint's.
  struct Way {
    RankPart part;
    std::unique_ptr<DistributedSystem> system;
    State given = nullptr;   // what solves begin with is copied into it
    State before = nullptr;  // what it was before; null until it is needed
  };

  StageSolver(const StageToSolve& stage, std::unique_ptr<StageMaker> maker);
  Status MakeLayers();
  GatheredNeeds NeedsOfGathered() const;
  Status MakeWay(Direction direction, Way& way);
  RankPart PartOf(Direction direction) const;
  // Of the first gathered level, those of the layers of the partition's rank number `at`.
  int CoarseStepsOf(int at) const;
  ExchangeRoom RoomForStates() const;
  bool is_gatherer() const { return gathers_ && to_solve_.peers.rank() == partition().first_rank; }
  const Partition& partition() const { return to_solve_.partition; }
  StateExchange& exchange() const { return maker_->exchange(); }
  int OwnerOf(int layer) const;  // its rank
  // The layers of needs_.layers that `rank` has, counted from its first one.
  std::vector<int> NeededOf(int rank) const;
  // Brings what the gathered levels need of other ranks' layers to the gathering one: the host's
  // weights, or those that layers keep.
  Status GatherWeights();
  Status GatherKeptWeights();
  Status GatherStates();
  Status Linearise();
  // Makes `way.given`, on the first rank of the way, the first state of its system. Where the solve
  // starts from the states as they are, all ranks add what it changed by to theirs.
  Status SetFirst(Start start, Way& way);
  // The scale that fits adjoints which begin with `numbers`, on the last rank.
  Result<double> AdjointScale(const double* numbers);

  const StageToSolve to_solve_;
  const std::unique_ptr<StageMaker> maker_;
  const bool gathers_;
  const int begin_, end_;  // this rank's layers
  Stage part_;
  Hierarchy mirrored_, local_, coarse_;
  std::unique_ptr<StageLayers> layers_;
  // Where levels are gathered, those of this rank that it solves for all.
  std::unique_ptr<StageLayers> gathered_layers_;
  Way forward_, backward_;
  KeptScale scale_;  // of the adjoints
  double gradient_factor_ =
      1;                 // what gradients by the last adjoints, as they are, are multiplied by
  bool is_idle_ = true;  // the last solve has come to its end, with all its messages

  // Where levels are gathered.
  GatheredNeeds needs_;
  Parameters gathered_parameters_;
  GatheredStates gathered_states_;
};

class StageSolvers {
 public:
  virtual ~StageSolvers() = default;
  virtual Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage) = 0;
};

}  // namespace ucudnn::multigrid
