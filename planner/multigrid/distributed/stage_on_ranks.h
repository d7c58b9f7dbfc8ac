// One stage of a network, solved both ways by the ranks that have its layers, as one of them sees
// it: its own layers, wherever they are computed (stage_layers.h), and of one rank those of the
// levels that it solves for all.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/distributed/distributed_system.h"
#include "planner/multigrid/distributed/stage_layers.h"
#include "planner/multigrid/scaled_solve.h"
#include "planner/multigrid/stage_solver.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

// The layers whose weights the levels of `gathered` read, and the states at which their adjoint is
// linearised, both in rising order.
struct GatheredNeeds {
  std::vector<int> layers;
  std::vector<int> states;
};
GatheredNeeds NeedsOf(CoarseOperator coarse, const Hierarchy& gathered);

class StageOnRanks : public StageSolver {
 public:
  static Result<std::unique_ptr<StageOnRanks>> Make(const StageToSolve& stage,
                                                    std::unique_ptr<StageMaker> maker);
  ~StageOnRanks() override;

  Status LoadWeights() override;
  Result<Solution> SolveForward(const double* first, const SolveOptions& options,
                                double* last) override;
  bool keeps_weights() const override { return layers_->keeps_weights(); }
  Result<Solution> SolveBackward(const double* last_adjoint, const SolveOptions& options,
                                 double* first_adjoint) override;
  Status AddGradients(Parameters& gradient, const GradientWatch& watch) override;
  Status Descend(const Descent& descent) override;
  Status ReadWeights(Parameters& parameters) override { return layers_->ReadWeights(parameters); }
  std::optional<CycleTimeline> Timeline() const override;

 private:
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

  StageOnRanks(const StageToSolve& stage, std::unique_ptr<StageMaker> maker);
  Status MakeLayers();
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
  Hierarchy mirrored_, local_, local_mirrored_, coarse_, coarse_mirrored_;
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

}  // namespace ucudnn::multigrid
