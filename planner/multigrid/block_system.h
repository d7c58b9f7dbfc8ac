// The states of a chain, or of the run of its blocks that one rank has, on top of any Propagator;
// each block of a level is a chain that the propagator runs. Results do not depend on the number of
// lanes, to the bit. Numbers count in the direction of the chain: in an adjoint, from the adjoint's
// own first state on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/layer_system.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// Which states of the finest level are kept. Both ways take as many steps in a cycle and give the
// same results to the bit, with one exception: if a cycle skips relaxation
// (SolveOptions::skips_first_down), F-points that are not kept are still computed from their
// C-points.
enum class Storage {
  kAll,     // all N + 1 states
  kCPoints  // N/c + 2 states; the others are computed again when they are read
};

// Provides the first state of each level of a system whose blocks follow another system's blocks.
class Inlet {
 public:
  virtual ~Inlet() = default;
  // Makes the first state of `level` valid for all work that `lane` is given from now on. Called
  // before that state is read, by the lane that reads it, after the lane has been given the work of
  // its other blocks.
  virtual Status AwaitFirst(int level, int lane) = 0;
};

// Tells which part of a chain a system has.
struct PartTraits {
  // False: the first state is u0, the same on all levels. True: each level has its own first state,
  // provided by an Inlet (SetInlet).
  bool has_inlet = false;
  // Whether the system has only coarse levels of a chain, so that its finest level has a right
  // side, too, which the caller writes.
  bool has_source = false;
};

// A change of the first state of the whole chain.
struct FirstStateChange {
  State to = nullptr;    // the new first state
  State from = nullptr;  // the old first state
};

class BlockSystem : public LayerSystem {
 public:
  // Phases of the keys of runs. Phases from kPhases on are free for others.
  enum Phase {
    kBroadcast,
    kLead,
    kRelaxF,
    kAdvance,
    kRelaxC,
    kRestrict,
    kSerial,
    kCorrect,
    kCarry,
    kMeasure,
    kPhases
  };

  // Creates the states of a whole chain. `first` is u0, a state of `propagator`, and is copied; if
  // it is null, SetFirst must be called before the first solve. `propagator`, `hierarchy` and
  // `lanes` outlive the system.
  static Result<BlockSystem> Make(Propagator& propagator, const Hierarchy& hierarchy, Lanes& lanes,
                                  Storage storage, State first);

  // Creates the states of one rank's blocks. REQUIRES: SetFirst is called before the first solve.
  static Result<BlockSystem> MakePart(Propagator& propagator, const Hierarchy& hierarchy,
                                      Lanes& lanes, Storage storage, const PartTraits& traits);

  Status Broadcast() override;
  Status StepLead(int level, Source source) override;
  Status RelaxF(int level, Source source) override;
  Status Advance(int level) override;
  Status RelaxC(int level) override;
  Status Restrict(int level) override;
  Status SolveSerially(int level, Source source) override;
  Status Correct(int level) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override {
    return propagator_->RunCycle(kind, cycle);
  }
  // Returns the parts of the system's own blocks. A system with an inlet leaves out its first
  // state, which another system has. kFullResidual has a part for each step; with
  // Storage::kCPoints, one for each block.
  Result<std::span<const double>> Parts(NormParts parts) override;
  double UnitRoundoff() const override { return propagator_->UnitRoundoff(); }

  // Returns how many states Make creates.
  static int64_t StatesFor(const Hierarchy& hierarchy, int lanes, Storage storage);

  // Runs each phase that a cycle may have. Passed to Propagator::Prepare.
  Status RunPhases();

  // Sets the inlet, which outlives the system. REQUIRES: PartTraits::has_inlet. Called before the
  // first solve.
  void SetInlet(Inlet& inlet) { inlet_ = &inlet; }
  // Copies `first` into the first state, on all levels that share it.
  Status SetFirst(State first);
  // Adds `change.to` - `change.from` to every kept state of the finest level, except `change.from`
  // itself: layers that change a state little pass a change on nearly as it is. With
  // Start::kPrevious, the next solve then starts with the error that a broadcast of the difference
  // alone would leave. REQUIRES: a solve has computed the states.
  Status CarryOver(const FirstStateChange& change);

  Storage storage() const { return storage_; }
  // States of the finest level; the last one is the output of the chain.
  State first() { return grids_[0].states.front(); }
  State last() { return grids_[0].states.back(); }
  // Returns C-point `number` of `level`, counted from 0: the first state of block `number`.
  State c_point(int level, int number) { return CPoint(level, number); }
  // Returns a state of `level` or its right side. source() REQUIRES: `level` has right sides.
  State state(int level, int number) { return grids_[level].states[number]; }
  State source(int level, int number) { return grids_[level].source[number]; }
  // Copies `from`, a state of this system or of another one of this rank, into `to`, on lane 0.
  Status Copy(State from, State to) { return propagator_->Combine(to, 0, 1, from, 0); }
  Status Join() { return propagator_->Join(); }

  // Makes `states` the first `count` states of block `block` of the finest level, its C-point
  // first; block -1 is in front of the first C-point. F-points that are not kept are computed from
  // the C-point into `scratch`, which has as many states as the block has F-points. States that
  // `states` already holds are not computed again.
  Status ReadOn(int block, int count, const std::vector<State>& scratch, int lane,
                std::vector<State>& states);

 private:
  // The states, right sides and scratch of one level.
  struct Grid {
    // By state; on the finest level with Storage::kCPoints: u0, the C-points and the last state. If
    // levels share their first state, it is the first C-point of the finer level.
    std::vector<State> states;
    std::vector<State> source;  // g by state; [0] is not used. Empty on the finest level of a chain
    std::vector<State> scratch;  // by step, if chains run side by side
  };

  BlockSystem(Propagator& propagator, const Hierarchy& hierarchy, Lanes& lanes, Storage storage,
              const PartTraits& traits)
      : propagator_(&propagator),
        hierarchy_(&hierarchy),
        lanes_(&lanes),
        storage_(storage),
        traits_(traits),
        runs_side_by_side_(propagator.RunsSideBySide()) {}

  bool KeepsF(int level) const { return level > 0 || storage_ == Storage::kAll; }
  // Returns whether coarse levels have their own first states.
  bool HasOwnFirst() const { return traits_.has_inlet || runs_side_by_side_; }
  // Returns the index of C-point `number` in Grid::states.
  size_t At(int level, int number) const {
    const Level& shape = hierarchy_->level(level);
    return KeepsF(level) ? shape.c_point(number) : number + (shape.lead > 0 ? 1 : 0);
  }
  State& CPoint(int level, int number) { return grids_[level].states[At(level, number)]; }
  State Scratch(int level, int step, int lane) {
    return runs_side_by_side_ ? grids_[level].scratch[step] : scratch_[lane].back();
  }
  bool Adds(int level, Source source) const {
    return source == Source::kRestricted && !grids_[level].source.empty();
  }
  Status MakeGrid(int level);
  // Returns how many states in front of the C-points count in norms.
  int StatesInFront() const { return hierarchy_->level(0).lead > 0 ? 1 : 0; }
  Status AwaitFirst(int level, int lane) {
    return inlet_ != nullptr ? inlet_->AwaitFirst(level, lane) : Status::Ok();
  }
  // Runs steps begin to end - 1 of a level that keeps all its states.
  Status Steps(int level, int begin, int end, Source source, int lane);
  // Computes to = Phi(from) + g[step + 1].
  Status Step(int level, int step, State from, State to, Source source, int lane);
  // Runs the steps of the finest level from the first state of `block` to step end - 1. The last
  // step writes `to`; the others write the lane's scratch.
  Status StepThrough(int block, int end, State to, int lane);
  Status Run(const RunKey& key, int chains, LaneWork chain) {
    return propagator_->Run(key, chains, chain, *lanes_);
  }
  // Runs chain(block, lane) for each block below `blocks`. The first block may have to wait for its
  // state, so a system with an inlet runs it last.
  template <typename Chain>
  Status RunBlocks(const RunKey& key, int blocks, const Chain& chain);
  Status MeasureResidual(bool by_state);
  Status MeasureFullResidual(int parts);

  Propagator* propagator_;
  const Hierarchy* hierarchy_;
  Lanes* lanes_;
  Storage storage_;
  PartTraits traits_;
  bool runs_side_by_side_;
  Inlet* inlet_ = nullptr;
  std::vector<Grid> grids_;                  // by level
  std::vector<std::vector<State>> scratch_;  // by lane
  std::vector<double> parts_;                // terms of the sum that Parts returns
  std::vector<double> sizes_;                // squared sizes of the C-points behind u0
};

}  // namespace ucudnn::multigrid
