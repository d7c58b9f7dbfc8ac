// The states of a chain on several ranks, each of which has a contiguous run of blocks. The solvers
// of all ranks run at the same time, each on its own system. All ranks take the same decisions,
// because every norm is the sum of all ranks' parts in the order that a single rank would use.
// Therefore results do not depend on the number of ranks, to the bit.
//
// A state at a boundary belongs to the rank that computes it, and the next rank has a copy. Each
// C-relaxation sends this state in one message before F-relaxation begins, and the next rank
// receives the message when its first block needs the state. All calls must come from one thread.
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
  int ranks = 1;
  bool is_reversed = false;

  // Returns the rank at `position`. The position of a rank is RankOf(rank), because either order is
  // its own inverse.
  int RankOf(int position) const { return is_reversed ? ranks - 1 - position : position; }
};

// The part of a chain that one rank has. Everything to which the pointers point must outlive the
// system.
struct RankPart {
  StateExchange* exchange = nullptr;
  RankLine line;
  int position = 0;  // position of this rank in `line`
  // The levels of this rank's layers (Hierarchy::Part): the distributed levels and, if the chain
  // has further levels, the first of the further levels.
  const Hierarchy* hierarchy = nullptr;
  int distributed = 1;
  // True if at least two levels are not distributed. The finest of them is then relaxed.
  bool relaxes_gathered = false;
  // By position: how many steps of the first level that is not distributed belong to ranks at
  // earlier positions. The last element is the number of all these steps.
  std::vector<int> coarse_begins;
};

class DistributedSystem : public LayerSystem, private Inlet {
 public:
  // `local` has this rank's blocks. It is made with PartTraits::has_inlet, except at position 0.
  // `coarse` is null except on rank 0, the gatherer. There it has all steps of the levels of
  // Hierarchy::CoarseLevels, and its finest level has right sides. REQUIRES: at position 0,
  // SetFirst is called before the first solve.
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
  // Returns the parts of the norm from all ranks, in the order in which a single rank would have
  // them.
  Result<std::span<const double>> Parts(NormParts parts) override;
  double UnitRoundoff() const override { return local_->UnitRoundoff(); }

  // Returns this rank's states. If the rank is not the first, local().first() is a copy of the
  // previous rank's last state.
  BlockSystem& local() { return *local_; }
  bool has_first() const { return part_.position == 0; }
  bool has_last() const { return part_.position + 1 == part_.line.ranks; }

 private:
  int positions() const { return part_.line.ranks; }
  bool is_gatherer() const { return coarse_ != nullptr; }
  // Returns whether one rank has all of level `level`.
  bool IsGathered(int level) const { return level >= part_.distributed; }
  // Runs a phase on the system that has `level`, with the level's number in that system. Does
  // nothing if only another rank has the level.
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
  // Restricted returns the states that this rank sends to the gatherer. RestrictedOf returns the
  // gatherer's states into which it receives what the rank at `position` sends.
  std::vector<State> Restricted() const;
  std::vector<State> RestrictedOf(int position) const;
  Status SolveInTurn(int level, Source source);
  Status CopyAll(std::span<const State> from, std::span<const State> to);

  RankPart part_;
  std::unique_ptr<BlockSystem> local_;
  std::unique_ptr<BlockSystem> coarse_;  // null except on the gatherer
  std::vector<double> all_parts_;
  std::vector<bool> is_awaited_;  // by level: whether a first state is on its way
};

}  // namespace ucudnn::multigrid
