// One stage of a network on the host, solved both ways by the ranks that have its layers, as one of
// them sees it. Thread-compatible; all ranks make and call it in the same order (peers.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/distributed/distributed_system.h"
#include "planner/multigrid/distributed/partition.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/host/propagators.h"
#include "planner/multigrid/host/stage.h"
#include "planner/multigrid/solver.h"
#include "planner/multigrid/timed_propagator.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::multigrid {

// All that is referred to outlives what is made of it.
struct HostStageSetting {
  const ResidualChain& chain;
  const Stage& stage;
  const Parameters& parameters;  // of this rank's layers
  const Hierarchy& hierarchy;
  const Partition& partition;
  CoarseOperator coarse = CoarseOperator::kInject;
  Storage storage = Storage::kAll;
  int batch = 1;
  double h = 1;
  bool notes_timeline = false;  // of forward solves by cycles
};

// The layers whose weights the levels of `gathered` read, and the states at which their adjoint is
// linearised, both in rising order.
struct GatheredNeeds {
  std::vector<int> layers;
  std::vector<int> states;
};
GatheredNeeds NeedsOf(CoarseOperator coarse, const Hierarchy& gathered);

class StageOnRanks {
 public:
  // On a rank that the partition has. `peers` and `lanes` outlive the stage.
  static Result<std::unique_ptr<StageOnRanks>> Make(const HostStageSetting& setting, Peers& peers,
                                                    Lanes& lanes);
  ~StageOnRanks();

  // From the first state, on the first rank, to the last one, on the last. Others' pointers are not
  // read. The solution is the same on all ranks.
  Result<Solution> SolveForward(const double* first, const SolveOptions& options, double* last);
  // From the adjoint of the last state to that of the first one, at the states of the last forward
  // solve; adds the gradients of this rank's layers, and tells `watch` of some after the other.
  Result<Solution> SolveBackward(const double* last_adjoint, const SolveOptions& options,
                                 double* first_adjoint, Parameters& gradient,
                                 const GradientWatch& watch);

  // Of the last forward solve, of this rank's layers; none where nobody asked for it.
  std::optional<CycleTimeline> Timeline() const;

  int64_t state_size() const { return stage_->state_size(); }

 private:
  // States of the whole chain by their number, as other ranks sent them.
  class GatheredStates : public StateReader {
   public:
    Result<State> At(int number, int) override { return states[number]; }
    std::vector<State> states;
  };
  class HostExchange;

  StageOnRanks(const HostStageSetting& setting, Peers& peers, Lanes& lanes);
  Status MakeStages();
  Status MakeForward();
  Status MakeBackward();
  // What both ways have in common.
  RankPart PartOf(bool is_reversed) const;
  bool is_gatherer() const { return gathers_ && peers_.rank() == setting_.partition.first_rank; }
  int OwnerOf(int layer) const;  // its rank
  // Brings what the gathered levels need of other ranks' layers to the gathering one.
  Status GatherWeights();
  Status GatherStates();
  // Makes `given`, on the first rank of the way, the first state of `system`. Where the solve
  // starts from the states as they are, all ranks add what it changed by to theirs.
  Status SetFirst(Start start, DistributedSystem& system, const RankPart& part, State given,
                  State& before);
  Status AddGradients(Parameters& gradient, const GradientWatch& watch);
  // Of the blocks from `begin` up to `end`.
  Status AddBlockGradients(int begin, int end, Parameters& gradient);

  const HostStageSetting setting_;
  Peers& peers_;
  Lanes& lanes_;
  const bool gathers_;
  const int begin_, end_;  // this rank's layers
  std::unique_ptr<HostExchange> exchange_;
  Stage part_;
  Hierarchy mirrored_, local_, local_mirrored_, coarse_, coarse_mirrored_;
  std::optional<HostStage> stage_;
  std::unique_ptr<HostChain> chain_;
  std::unique_ptr<TimedPropagator> timed_;  // the chain's; null: nobody asks for a timeline
  std::unique_ptr<HostAdjoint> adjoint_;
  std::unique_ptr<DistributedSystem> states_;
  std::unique_ptr<DistributedSystem> adjoints_;
  std::optional<Trajectory> trajectory_;  // of the states
  std::optional<Trajectory> adjoint_trajectory_;
  State given_ = nullptr;          // of the chain; what solves begin with is copied into it
  State given_adjoint_ = nullptr;  // of the adjoint
  // What the first states were before, of ranks that do not have them; null until they are needed.
  State before_ = nullptr;
  State before_adjoint_ = nullptr;

  // Where levels are gathered.
  GatheredNeeds needs_;
  Parameters gathered_parameters_;
  std::optional<HostStage> gathered_stage_;
  std::unique_ptr<HostChain> gathered_chain_;
  std::unique_ptr<HostAdjoint> gathered_adjoint_;
  GatheredStates gathered_states_;
};

}  // namespace ucudnn::multigrid
