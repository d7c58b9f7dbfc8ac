// The states of a chain in blocks that run on lanes, on top of any Propagator. Results do not
// depend on the number of lanes, to the bit.
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

// What of a chain a system has, where it is not all of it.
struct BlockPart {
  // Null: the first state is u0, the same on all levels. Else each level has one of its own, which
  // C-relaxation elsewhere changes. Outlives the system.
  Inlet* inlet = nullptr;
  // Whether these are coarse levels, the finest of which has a right side, too: set from outside.
  bool has_source = false;
};

// What norms are made of: one number for each block, step or state, in their order.
enum class NormParts {
  kResidual,         // |A - U|^2 of each C-point behind the first
  kResidualByState,  // the same divided by |U|^2; 0 / 0 is 0
  kFullResidual,     // |Phi(U) - U|^2 of each step; with Storage::kCPoints of each block
  kStates            // |U|^2 of u0, each C-point and the last state
};
double RootOfSum(std::span<const double> parts);
LayerSystem::StateNorms StateNormsOf(std::span<const double> squares);

class BlockSystem : public LayerSystem {
 public:
  // `first` is u0, of `propagator`; it is copied. Null: SetFirst comes before the first solve.
  // `propagator`, `hierarchy` and `lanes` outlive the system.
  static Result<BlockSystem> Make(Propagator& propagator, const Hierarchy& hierarchy, Lanes& lanes,
                                  Storage storage, State first);

  // The same of a part; without first states.
  static Result<BlockSystem> MakePart(Propagator& propagator, const Hierarchy& hierarchy,
                                      Lanes& lanes, Storage storage, const BlockPart& part);

  Status Broadcast() override;
  Status StepLead(int level, Source source) override;
  Status RelaxF(int level, Source source) override;
  Status Advance(int level) override;
  Status RelaxC(int level, double weight) override;
  Status Restrict(int level) override;
  Status SolveSerially(int level, Source source) override;
  Status Correct(int level) override;
  Status RunCycle(int kind, const std::function<Status()>& cycle) override {
    return propagator_->RunCycle(kind, cycle);
  }
  // What norms are summed from; of a part with an inlet without its first state, which another
  // has. It holds until the next call.
  Result<std::span<const double>> Parts(NormParts parts);
  Result<double> ResidualNorm() override;
  Result<double> ResidualNormByState() override;
  Result<double> FullResidualNorm() override;
  Result<StateNorms> Norms() override;
  double UnitRoundoff() const override { return propagator_->UnitRoundoff(); }

  // How many states Make creates.
  static int64_t StatesFor(const Hierarchy& hierarchy, int lanes, Storage storage);

  // Replaces u0, for a solve that starts from the states as they are (Start::kPrevious).
  Status SetFirst(State first);

  Storage storage() const { return storage_; }
  State first() const { return grids_[0].states.front(); }
  State last() const { return grids_[0].states.back(); }  // the stage's output
  // The C-point behind block `number` - 1 of `level`, counted from 0.
  State c_point(int level, int number) const { return grids_[level].states[At(level, number)]; }
  // State and right side of a step's end on `level`, which is not the finest of a chain.
  State state(int level, int number) const { return grids_[level].states[number]; }
  State source(int level, int number) const { return grids_[level].source[number]; }

  // The states of the finest level from C-point `block` on, up to the next one or, in the last
  // block, with the last state; of block -1 those in front of the first C-point. F-points are as
  // they follow from the C-point. What is not kept is computed into `scratch`, which has as many
  // states as the block F-points.
  Status ReadBlock(int block, const std::vector<State>& scratch, int lane,
                   std::vector<State>& states);
  // The first `count` of them; `states` has none or some already, which are not computed again.
  Status ReadOn(int block, int count, const std::vector<State>& scratch, int lane,
                std::vector<State>& states);

 private:
  // The states of one level and what restriction made of the one below.
  struct Grid {
    // By state; of the finest level with Storage::kCPoints u0, the C-points and the last state.
    // Without an inlet the first one is the C-point of the level before that it stands for.
    std::vector<State> states;
    std::vector<State> source;  // g by state; [0] is not used. Empty on the finest level
  };

  BlockSystem(Propagator& propagator, const Hierarchy& hierarchy, Lanes& lanes, Storage storage,
              const BlockPart& part)
      : propagator_(&propagator),
        hierarchy_(&hierarchy),
        lanes_(&lanes),
        storage_(storage),
        part_(part) {}

  bool KeepsF(int level) const { return level > 0 || storage_ == Storage::kAll; }
  // Where a grid has C-point `number`.
  size_t At(int level, int number) const {
    const Level& shape = hierarchy_->level(level);
    return KeepsF(level) ? shape.c_point(number) : number + (shape.lead > 0 ? 1 : 0);
  }
  State& CPoint(int level, int number) { return grids_[level].states[At(level, number)]; }
  // The number of states in front of the C-points of which norms are made.
  int StatesInFront() const { return hierarchy_->level(0).lead > 0 ? 1 : 0; }
  // Lanes take blocks in this order: the first one, which may have to wait for its state, last.
  int BlockAt(int task, int blocks) const {
    return part_.inlet == nullptr ? task : (task + 1) % blocks;
  }
  Status AwaitFirst(int level, int block, int lane) {
    if (part_.inlet == nullptr || block > 0) return Status::Ok();
    return part_.inlet->AwaitFirst(level, lane);
  }
  // to = Phi(from) + g[step + 1].
  Status Step(int level, int step, State from, State to, Source source, int lane);
  // Runs the steps of the finest level from the first state of `block` on up to, not including,
  // `end`, in the lane's scratch, the last one into `to`.
  Status StepThrough(int block, int end, State to, int lane);
  // work(task, lane) on the lanes, and then joins them.
  template <typename Work>
  Status ForEach(int tasks, Work&& work) {
    UCUDNN_RETURN_IF_ERROR(lanes_->ForEach(tasks, work));
    return propagator_->Join();
  }
  Status AdvanceBlock(int level, int block, int lane);
  Status MeasureResidual(bool by_state);
  Status MeasureFullResidual(int parts);

  Propagator* propagator_;
  const Hierarchy* hierarchy_;
  Lanes* lanes_;
  Storage storage_;
  BlockPart part_;
  std::vector<Grid> grids_;                  // one for each level
  std::vector<std::vector<State>> scratch_;  // by lane
  std::vector<double> parts_;                // of a sum
  std::vector<double> sizes_;                // of C-points behind u0, squared
};

}  // namespace ucudnn::multigrid
