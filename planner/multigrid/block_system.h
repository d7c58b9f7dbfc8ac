// The states of a chain, or of the run of its blocks that one rank has, on top of any Propagator,
// which runs the blocks of a level as chains. Results do not depend on the number of lanes, to the
// bit. Numbers count in the direction of the chain: an adjoint's from its own first state on.
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

// Which states of the finest level are kept. A cycle steps as often, and its results are the same,
// to the bit; but where it skips relaxation (SolveOptions::skips_first_down), F-points that are not
// kept follow from their C-points all the same.
enum class Storage {
  kAll,     // N + 1
  kCPoints  // N/c + 2; the others are computed again when they are read
};

// Who brings the first states of blocks that begin where another system's end.
class Inlet {
 public:
  virtual ~Inlet() = default;
  // The first state of `level` is what it should be for what `lane` is given from now on. Called
  // before it is read, by whichever lane reads it, as late as other blocks give it work.
  virtual Status AwaitFirst(int level, int lane) = 0;
};

// Which part of a chain a system has.
struct PartTraits {
  // False: the first state is u0, the same on all levels. Else each level has one of its own, which
  // an Inlet brings (SetInlet).
  bool has_inlet = false;
  // Whether these are coarse levels, the finest of which has a right side, too: set from outside.
  bool has_source = false;
};

// What the first state of the whole chain becomes, and what it is.
struct FirstStateChange {
  State to = nullptr;
  State from = nullptr;
};

class BlockSystem : public LayerSystem {
 public:
  // The phases of keys; others may have keys from kPhases on.
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

  // `first` is u0, of `propagator`; it is copied. Null: SetFirst comes before the first solve.
  // `propagator`, `hierarchy` and `lanes` outlive the system.
  static Result<BlockSystem> Make(Propagator& propagator, const Hierarchy& hierarchy, Lanes& lanes,
                                  Storage storage, State first);

  // Builds the system for one rank's blocks. Call SetFirst before solving.
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
  // The parts are those of its own blocks. A system with an inlet leaves out its first state, which
  // another system has.
  // kFullResidual: of each step, with Storage::kCPoints of each block.
  Result<std::span<const double>> Parts(NormParts parts) override;
  double UnitRoundoff() const override { return propagator_->UnitRoundoff(); }

  // How many states Make creates.
  static int64_t StatesFor(const Hierarchy& hierarchy, int lanes, Storage storage);

  // Runs each phase that a cycle may have: for Propagator::Prepare.
  Status RunPhases();

  // REQUIRES: a part with an inlet. It outlives the part; before the first solve.
  void SetInlet(Inlet& inlet) { inlet_ = &inlet; }
  // The first state becomes `first`, on all levels that share it.
  Status SetFirst(State first);
  // Adds `change` to every state of the finest level that is kept, but for `change.from` itself
  // where it is one of them: layers that go a small way hand a change on nearly as it is.
  // Start::kPrevious then begins with what a broadcast would leave of the change alone. REQUIRES:
  // some solve has computed the states.
  Status CarryOver(const FirstStateChange& change);

  Storage storage() const { return storage_; }
  // States of the finest level; the last one is the chain's output.
  State first() { return grids_[0].states.front(); }
  State last() { return grids_[0].states.back(); }
  // The C-point behind block `number` - 1 of `level`, counted from 0.
  State c_point(int level, int number) { return CPoint(level, number); }
  // State and right side of a step's end on `level`, which is not the finest of a chain.
  State state(int level, int number) { return grids_[level].states[number]; }
  State source(int level, int number) { return grids_[level].source[number]; }
  // `to` becomes `from`, of this system or another one of this rank, on lane 0.
  Status Copy(State from, State to) { return propagator_->Combine(to, 0, 1, from, 0); }
  Status Join() { return propagator_->Join(); }

  // Makes `states` the first `count` states of the finest level from C-point `block` on; of block
  // -1 those in front of the first C-point. F-points are as they follow from the C-point: what is
  // not kept is computed into `scratch`, which has as many states as the block F-points. Those that
  // `states` has already are not computed again.
  Status ReadOn(int block, int count, const std::vector<State>& scratch, int lane,
                std::vector<State>& states);

 private:
  // The states of one level and what restriction made of the one below.
  struct Grid {
    // By state; of the finest level with Storage::kCPoints u0, the C-points and the last state.
    // Where levels share their first state, it is the C-point of the finer level.
    std::vector<State> states;
    std::vector<State> source;   // g by state; [0] is not used. Empty on the finest level
    std::vector<State> scratch;  // by step, where chains run side by side
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
  // Whether coarse levels have a first state of their own.
  bool HasOwnFirst() const { return traits_.has_inlet || runs_side_by_side_; }
  // Where a grid has C-point `number`.
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
  // The number of states in front of the C-points of which norms are made.
  int StatesInFront() const { return hierarchy_->level(0).lead > 0 ? 1 : 0; }
  Status AwaitFirst(int level, int lane) {
    return inlet_ != nullptr ? inlet_->AwaitFirst(level, lane) : Status::Ok();
  }
  // Runs steps begin..end - 1 of a level that keeps all its states, into those.
  Status Steps(int level, int begin, int end, Source source, int lane);
  // to = Phi(from) + g[step + 1].
  Status Step(int level, int step, State from, State to, Source source, int lane);
  // Runs the steps of the finest level from the first state of `block` on up to, not including,
  // `end`, in the lane's scratch, the last one into `to`.
  Status StepThrough(int block, int end, State to, int lane);
  Status Run(const RunKey& key, int chains, LaneWork chain) {
    return propagator_->Run(key, chains, chain, *lanes_);
  }
  // Runs chain(block, lane) for each block below `blocks`, the first one, which may have to wait
  // for its state, last.
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
  std::vector<Grid> grids_;                  // one for each level
  std::vector<std::vector<State>> scratch_;  // by lane
  std::vector<double> parts_;                // of a sum
  std::vector<double> sizes_;                // of C-points behind u0, squared
};

}  // namespace ucudnn::multigrid
