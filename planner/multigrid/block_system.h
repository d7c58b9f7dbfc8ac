// The states of a chain, or of the contiguous blocks of a chain that one rank has. Any Propagator
// can compute them: it runs the work of each block as one chain of operations. Results do not
// depend on the number of lanes, to the bit. States and steps are numbered in the direction of the
// chain; in an adjoint, 0 is the adjoint's own first state.
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

// Says which states of the finest level are kept. Both values lead to the same number of steps in a
// cycle and to the same bits. The exception is a cycle that skips relaxation
// (SolveOptions::skips_first_down): with kCPoints it still computes the F-points, from their
// C-points.
enum class Storage {
  kAll,     // all N + 1 states
  kCPoints  // N/c + 2 states; the other states are computed again when they are read
};

// Provides the first state of each level of a system whose blocks follow another system's blocks.
class Inlet {
 public:
  virtual ~Inlet() = default;
  // Makes the first state of `level` valid for all later work of `lane`, which is the lane that
  // reads it. BlockSystem calls this function as late as possible: once it has given the lane the
  // work of all blocks that do not depend on that state.
  virtual Status AwaitFirst(int level, int lane) = 0;
};

// Describes which part of a chain a system has.
struct PartTraits {
  // False: u0 is the first state of every level. True: each level has another first state, which an
  // Inlet provides (SetInlet).
  bool has_inlet = false;
  // True if the system has only coarse levels of a chain. Its finest level then has a right side
  // too, which the caller writes.
  bool has_source = false;
};

// A change of the first state of the whole chain.
struct FirstStateChange {
  State to = nullptr;    // the new first state
  State from = nullptr;  // the old first state
};

class BlockSystem : public LayerSystem {
 public:
  // The values of RunKey::phase that this class uses. Callers may use values from kPhases on.
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

  // Creates the states of a whole chain, and copies `first`, which is u0 as a state of
  // `propagator`. If `first` is null, SetFirst must be called before the first solve. `propagator`,
  // `hierarchy` and `lanes` must outlive the system.
  static Result<BlockSystem> Make(Propagator& propagator, const Hierarchy& hierarchy, Lanes& lanes,
                                  Storage storage, State first);

  // Creates the states of one rank's blocks. REQUIRES: before the first solve, SetFirst is called
  // or, with an inlet, SetInlet.
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
  // Returns the parts of the norm that the system's own blocks give. If the system has an inlet,
  // its first state belongs to another system and gives no part. kFullResidual has a part for each
  // step or, with Storage::kCPoints, for each block.
  Result<std::span<const double>> Parts(NormParts parts) override;
  double UnitRoundoff() const override { return propagator_->UnitRoundoff(); }

  // Returns the number of states that Make creates if chains do not run side by side.
  static int64_t StatesFor(const Hierarchy& hierarchy, int lanes, Storage storage);

  // Runs each phase that a cycle may contain. Propagator::Prepare calls it.
  Status RunPhases();

  // Sets the inlet, which must outlive the system, before the first solve. REQUIRES:
  // PartTraits::has_inlet.
  void SetInlet(Inlet& inlet) { inlet_ = &inlet; }
  // Copies `first` into the first state of the finest level.
  Status SetFirst(State first);
  // Adds `change.to` - `change.from` to every kept state of the finest level, except to
  // `change.from` itself and, with Storage::kCPoints, to the last state, which RelaxF computes
  // anew. Layers that change a state little pass the difference on nearly unchanged. So a solve
  // with Start::kPrevious then starts close to its solution: its first error is the error of the
  // earlier solve plus what the layers add to the difference. REQUIRES: a solve has computed the
  // states.
  Status CarryOver(const FirstStateChange& change);

  Storage storage() const { return storage_; }
  // The first and the last state of the finest level. The last one is the output of the chain.
  State first() { return grids_[0].states.front(); }
  State last() { return grids_[0].states.back(); }
  // Returns C-point `number` of `level`, counted from 0: the first state of block `number`.
  State c_point(int level, int number) { return CPoint(level, number); }
  // state() returns a state of `level`, and source() the right side of that state. source()
  // REQUIRES: `level` has right sides.
  State state(int level, int number) { return grids_[level].states[number]; }
  State source(int level, int number) { return grids_[level].source[number]; }
  // Copies `from`, a state of any system of this rank, into `to`, on lane 0.
  Status Copy(State from, State to) { return propagator_->Combine(to, 0, 1, from, 0); }
  Status Join() { return propagator_->Join(); }

  // Sets `states` to the first `count` states of block `block` of the finest level, the C-point
  // first. Block -1 has the states in front of the first C-point. F-points that are not kept are
  // computed into `scratch`, which has as many states as the block has F-points. States that
  // `states` already holds are not computed again.
  Status ReadOn(int block, int count, const std::vector<State>& scratch, int lane,
                std::vector<State>& states);

 private:
  // The states, right sides and scratch of one level.
  struct Grid {
    // The states of the level by number. On the finest level with Storage::kCPoints these are only
    // u0, the C-points and the last state. Unless HasOwnFirst(), the first state of a coarse level
    // is the first C-point of the finer level.
    std::vector<State> states;
    std::vector<State> source;   // g by state; [0] is unused; empty on a chain's finest level
    std::vector<State> scratch;  // by step, if blocks run side by side
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
  // Returns the position of C-point `number` in Grid::states.
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
  // Returns how many of the states in front of the first C-point count in norms.
  int StatesInFront() const { return hierarchy_->level(0).lead > 0 ? 1 : 0; }
  Status AwaitFirst(int level, int lane) {
    return inlet_ != nullptr ? inlet_->AwaitFirst(level, lane) : Status::Ok();
  }
  // Runs steps begin to end - 1 of a level whose states are all kept.
  Status RunSteps(int level, int begin, int end, Source source, int lane);
  // Computes to = Phi(from) + g[step + 1].
  Status Step(int level, int step, State from, State to, Source source, int lane);
  // Runs the steps of the finest level from the first state of `block` to step end - 1. The last
  // step writes `to`; the earlier steps write the lane's scratch.
  Status StepThrough(int block, int end, State to, int lane);
  Status Run(const RunKey& key, int chains, LaneWork chain) {
    return propagator_->Run(key, chains, chain, *lanes_);
  }
  // Runs chain(block, lane) for the blocks 0 to blocks - 1. A system with an inlet runs block 0
  // last, because that block may have to wait for its first state. If blocks run side by side, the
  // system waits for that state before any block runs.
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
  std::vector<double> parts_;                // the terms that Parts returns
  std::vector<double> sizes_;                // squared norms of the C-points after the first
};

}  // namespace ucudnn::multigrid
