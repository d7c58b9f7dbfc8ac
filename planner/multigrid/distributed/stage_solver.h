// Solves one stage of a network in both directions, on the ranks that have the stage's layers. An
// object is one rank's part: the rank's own layers, wherever they are computed (stage_layers.h),
// and on one rank also the layers of the levels that this rank solves for all ranks.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/distributed_system.h"
#include "planner/multigrid/distributed/partition.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/distributed/stage_layers.h"
#include "planner/multigrid/solver.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

// The arguments of a stage's solver: a whole stage, with the parameters of this rank's layers.
// Everything to which it refers must outlive the solver.
struct StageToSolve : StagePart {
  const Partition& partition;  // this rank is one of its ranks
  Peers& peers;
  // The options that later solves will have. A device measures solves with these options to choose
  // how its layers run.
  SolveOptions forward = {}, backward = {};
  bool trains = false;  // whether SolveBackward will be called
  // The ranks that have these layers in each replica. Descend averages their gradients. Null if
  // there is one replica.
  Peers* replicas = nullptr;
};

// All ranks must make and call their solvers in the same order (peers.h). Thread-compatible.
class StageSolver {
 public:
  static Result<std::unique_ptr<StageSolver>> Make(const StageToSolve& stage, StageMaker maker);
  ~StageSolver();

  // Loads the host's current parameters. Called before the first solve, and after the host has
  // changed the parameters.
  Status LoadWeights();
  // Returns whether the solver keeps the loaded weights and their momentum where it computes. If
  // so, Descend changes these weights, and the host's copy is as of the last ReadWeights.
  bool keeps_weights() const { return layers_->kept_weights() != nullptr; }
  // Solves the chain. The first rank reads the first state from `first`, and the last rank writes
  // the last state to `last`. Both are states of all images, [batch, C, H, W]. Other ranks do not
  // use these pointers. The solution is the same on all ranks.
  Result<Solution> SolveForward(const double* first, const SolveOptions& options, double* last);
  // Solves the adjoint, linearised at the states of the last forward solve. The last rank reads the
  // adjoint of the last state from `last_adjoint`. The first rank writes the adjoint of the first
  // state to `first_adjoint`.
  Result<Solution> SolveBackward(const double* last_adjoint, const SolveOptions& options,
                                 double* first_adjoint);
  // AddGradients and Descend use the gradients of this rank's layers from the last forward and
  // backward solves. They REQUIRE a SolveBackward.

  // Adds the gradients to `gradient`, some layers at a time, and calls watch() with the nodes that
  // are complete.
  Status AddGradients(Parameters& gradient, const GradientWatch& watch);
  // Moves the parameters along the gradients, or along the mean of all replicas' gradients.
  // REQUIRES: keeps_weights().
  Status Descend(const Descent& descent);
  // Reads the parameters of this rank's layers in single precision. REQUIRES: keeps_weights().
  Status ReadWeights(Parameters& parameters) { return layers_->kept_weights()->Read(parameters); }
  // Returns the times of this rank's steps in the last forward solve; none unless
  // StageToSolve::notes_timeline.
  std::optional<CycleTimeline> Timeline() const;

 private:
  // The layers whose weights the gathered levels need, and the states at which the adjoint of the
  // gathered levels is linearised. Both lists are in ascending order.
  struct GatheredNeeds {
    std::vector<int> layers;
    std::vector<int> states;
  };
  // The states in GatheredNeeds, by their numbers in the whole chain. Other ranks have sent them,
  // or they are copies of this rank's own states.
  class GatheredStates : public StateReader {
   public:
    Result<State> At(int number, int) override { return states[number]; }
    std::vector<State> states;
  };
  // One direction of solving: the system of the chain or of its adjoint.
  struct SolveDirection {
    RankPart part;
    std::unique_ptr<DistributedSystem> system;
    State given = nullptr;   // a copy of the first state of the current solve
    State before = nullptr;  // the previous first state; null until needed
  };

  StageSolver(const StageToSolve& stage, StageMaker maker);
  Status MakeLayers();
  GatheredNeeds NeedsOfGathered() const;
  Status MakeWay(Direction direction, SolveDirection& way);
  RankPart PartOf(Direction direction) const;
  // Returns how many steps of the first gathered level belong to layers of `rank`.
  int CoarseStepsOf(int rank) const;
  ExchangeRoom RoomForStates() const;
  bool is_gatherer() const { return gathers_ && to_solve_.peers.rank() == 0; }
  const Partition& partition() const { return to_solve_.partition; }
  StateExchange& exchange() const { return *maker_.exchange; }
  int OwnerOf(int layer) const;  // returns the rank that has the layer
  // Returns the layers of needs_.layers that `rank` has, numbered from the rank's first layer.
  std::vector<int> NeededOf(int rank) const;
  // Send the gatherer what its levels need from other ranks. In order: the host's weights, the
  // weights that layers keep, states.
  Status GatherWeights();
  Status GatherKeptWeights();
  Status GatherStates();
  Status Linearise();
  // On the first rank of `way`, copies `way.given` into the first state of the rank's system. With
  // Start::kPrevious, all ranks also add the change of the first state to their other states
  // (BlockSystem::CarryOver).
  Status SetFirst(Start start, SolveDirection& way);
  // Returns a power of two that scales the largest number of the first adjoint to about 1. Returns
  // 1 if that number is 0 or not finite, or if adjoints are not scaled. Only the last rank has the
  // adjoint's values, `numbers`.
  Result<double> AdjointScale(const double* numbers);

  const StageToSolve to_solve_;
  const StageMaker maker_;
  const bool gathers_;
  const int begin_, end_;  // this rank's layers: begin_ to end_ - 1
  Stage part_;
  Hierarchy mirrored_, local_, coarse_;
  std::unique_ptr<StageLayers> layers_;
  // On the gatherer: the layers of the levels that it solves for all ranks.
  std::unique_ptr<StageLayers> gathered_layers_;
  SolveDirection forward_, backward_;
  double scale_ = 1;            // the scale of the adjoints, a power of two
  double gradient_factor_ = 1;  // factor of the gradients that follow from the scaled adjoints
  bool is_idle_ = true;         // whether the last solve and all its messages have ended

  // The members below are used if levels are gathered.
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
