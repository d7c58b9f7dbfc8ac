// The states of a chain on several ranks, each with a contiguous run of its blocks. The solver of
// each rank moves the states of its system, at the same time as the solvers of the other ranks. All
// ranks take the same decisions, since norms are summed from the parts of all ranks in the order
// that a single rank would use. So results do not depend on the number of ranks, to the bit.
//
// A state at a boundary belongs to the rank that computes it, and the next rank has a copy. Each
// C-relaxation sends one message, before F-relaxation goes on, and the next rank receives it when
// its first block needs it. Calls come from one thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/block_system.h"
#include "planner/multigrid/distributed/peers.h"
#include "planner/multigrid/distributed/state_exchange.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/layer_system.h"

namespace ucudnn::multigrid {

// The ranks in the order of the chain's steps. The adjoint has the reverse order.
struct RankLine {
  RankRange ranks;
  bool is_reversed = false;

  int RankOf(int position) const {
    return ranks.first + (is_reversed ? ranks.count - 1 - position : position);
  }
  int PositionOf(int rank) const {
    return is_reversed ? ranks.count - 1 - (rank - ranks.first) : rank - ranks.first;
  }
};

// The part of a chain that one rank has. All pointers outlive the system.
struct RankPart {
  StateExchange* exchange = nullptr;
  RankLine line;
  int position = 0;  // of this rank
  // The levels of this rank's layers (Hierarchy::Part): the distributed levels and, if the chain
  // has more levels, the first of the others.
  const Hierarchy* hierarchy = nullptr;
  int distributed = 1;
  // The rank that has all levels that are not distributed, if there are any.
  int gatherer = 0;
  // Whether at least two levels are not distributed, so that the first of them is relaxed.
  bool relaxes_gathered = false;
  // By position, and the end: how many states of the first level that is not distributed lie in
  // front of the rank's own.
  std::vector<int> coarse_begins;
};

class DistributedSystem : public LayerSystem, private Inlet {
 public:
  // `local` has this rank's blocks, with an inlet unless they are the chain's first. `coarse`, on
  // the gatherer only, has all steps of the levels of Hierarchy::CoarseLevels, the finest of which
  // has a source. REQUIRES: SetFirst is called before the first solve, on the rank of position 0.
  DistributedSystem(const RankPart& part, std::unique_ptr<BlockSystem> local,
                    std::unique_ptr<BlockSystem> coarse);

  Status Broadcast() override;
  Status StepLead(int level, Source source) override;
  Status RelaxF(int level, Source source) override {
    return Run(level, &BlockSystem::RelaxF, source);
  }
  Status Advance(int level) override { return Run(level, &BlockSystem::Advance); }
  Status RelaxC(int level) override;
  Status Restrict(int level) override;
  Status SolveSerially(int level, Source source) override;
  Status Correct(int level) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override {
    return local_->RunCycle(kind, cycle);
  }
  // Returns the parts of all ranks, in the order in which a single rank has them.
  Result<std::span<const double>> Parts(NormParts parts) override;
  double UnitRoundoff() const override { return local_->UnitRoundoff(); }

  // This rank's states. The first one is the last state of the previous rank.
  BlockSystem& local() { return *local_; }
  bool has_first() const { return part_.position == 0; }
  bool has_last() const { return part_.position + 1 == part_.line.ranks.count; }

 private:
  int positions() const { return part_.line.ranks.count; }
  bool is_gatherer() const { return coarse_ != nullptr; }
  // Returns whether one rank has all of level `level`.
  bool IsGathered(int level) const { return level >= part_.distributed; }
  // Runs a phase on the system that has `level`, with the level's number in that system. Returns Ok
  // if another rank has the level.
  template <typename... Arguments>
  Status Run(int level, Status (BlockSystem::*phase)(int, Arguments...), Arguments... arguments) {
    if (!IsGathered(level)) return (*local_.*phase)(level, arguments...);
    return is_gatherer() ? (*coarse_.*phase)(level - part_.distributed, arguments...)
                         : Status::Ok();
  }
  Status AwaitFirst(int level, int lane) override;
  // Receives states, and makes all later work of all lanes wait for them.
  Status Receive(int from, std::span<const State> states);
  Status SendFirst();
  Status GatherCoarse();
  Status ScatterCoarse();
  // Return the states that this rank sends to the gatherer, and the gatherer's states for the rank
  // at `position`.
  std::vector<State> Restricted() const;
  std::vector<State> RestrictedOf(int position) const;
  Status SolveInTurn(int level, Source source);
  Status CopyAll(std::span<const State> from, std::span<const State> to);

  RankPart part_;
  std::unique_ptr<BlockSystem> local_;
  std::unique_ptr<BlockSystem> coarse_;  // null except on the gatherer
  std::vector<double> all_parts_;
  std::vector<bool> is_awaited_;  // by level: a first state is on its way
};

}  // namespace ucudnn::multigrid
