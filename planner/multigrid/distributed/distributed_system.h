// The states of a chain on several ranks, each with a contiguous run of its blocks: what the solver
// of one rank moves, while the solvers of the others do the same. All ranks decide alike, since
// norms are summed from all ranks' parts in the order of one rank alone; so results do not depend
// on the number of ranks, to the bit.
//
// A state at a boundary belongs to the rank that computes it, and the rank behind has a copy: one
// message for each C-relaxation, sent before F-relaxation goes on, and received when the first
// block behind it needs it. Calls come from one thread.
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

// The ranks in the order of the chain's steps: the adjoint's is the reverse.
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

// What one rank has of a chain. All that is pointed at outlives the system.
struct RankPart {
  StateExchange* exchange = nullptr;
  RankLine line;
  int position = 0;  // of this rank
  // The levels that are distributed and, where there are more, the first of those: of this rank's
  // layers alone (Hierarchy::Part).
  const Hierarchy* hierarchy = nullptr;
  int distributed = 1;
  // The rank that has all levels behind those, if there are any.
  int gatherer = 0;
  // Whether there are at least two of those levels, so that the first of them is relaxed.
  bool relaxes_gathered = false;
  // By position, and the end: the states of the first of those levels that are in front of a
  // rank's.
  std::vector<int> coarse_begins;
};

class DistributedSystem : public LayerSystem, private Inlet {
 public:
  // `local` has this rank's blocks, with an inlet where that is not the first; `coarse`, on the
  // gatherer alone, all steps of the levels from Hierarchy::CoarseLevels, whose finest has a
  // source. Without first state: SetFirst comes before the first solve, on the rank of position 0.
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
  // Of all ranks, in the order of one alone.
  Result<std::span<const double>> Parts(NormParts parts) override;
  double UnitRoundoff() const override { return local_->UnitRoundoff(); }

  // This rank's states. The first one is the last one of the rank before.
  BlockSystem& local() { return *local_; }
  bool has_first() const { return part_.position == 0; }
  bool has_last() const { return part_.position + 1 == part_.line.ranks.count; }

 private:
  int positions() const { return part_.line.ranks.count; }
  bool is_gatherer() const { return coarse_ != nullptr; }
  // Level `level` of the chain, if it is on this rank alone: the system of it, or null.
  bool IsGathered(int level) const { return level >= part_.distributed; }
  // The phase of the system that has `level`, by the level's number there. Ok where another rank
  // has it.
  template <typename... Arguments>
  Status Run(int level, Status (BlockSystem::*phase)(int, Arguments...), Arguments... arguments) {
    if (!IsGathered(level)) return (*local_.*phase)(level, arguments...);
    return is_gatherer() ? (*coarse_.*phase)(level - part_.distributed, arguments...)
                         : Status::Ok();
  }
  Status AwaitFirst(int level, int lane) override;
  // What all lanes are given from now on is behind what is received.
  Status Receive(int from, std::span<const State> states);
  Status SendFirst();
  Status GatherCoarse();
  Status ScatterCoarse();
  // The states that position p sends, or the gatherer has of it.
  std::vector<State> Restricted() const;
  std::vector<State> RestrictedOf(int position) const;
  Status SolveInTurn(int level, Source source);
  Status CopyAll(std::span<const State> from, std::span<const State> to);

  RankPart part_;
  std::unique_ptr<BlockSystem> local_;
  std::unique_ptr<BlockSystem> coarse_;  // the gatherer's
  std::vector<double> all_parts_;
  std::vector<bool> is_awaited_;  // by level: a first state is on its way
};

}  // namespace ucudnn::multigrid
