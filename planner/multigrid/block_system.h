// The states of a chain in blocks that run on lanes, on top of any Propagator. Results do not
// depend on the number of lanes, to the bit.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/chain_part.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/lanes.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// Which states of the finest level are kept. A cycle steps as often, and its results are the same,
// to the bit; but where it skips relaxation (SolveOptions::skips_first_down), F-points that are not
// kept follow from their C-points all the same.
enum class Storage {
  kAll,     // N + 1
  kCPoints  // N/c + 2; the others are computed again when they are read
};

class BlockSystem : public ChainPart {
 public:
  // `first` is u0, of `propagator`; it is copied. Null: SetFirst comes before the first solve.
  // `propagator`, `hierarchy` and `lanes` outlive the system.
  static Result<BlockSystem> Make(Propagator& propagator, const Hierarchy& hierarchy, Lanes& lanes,
                                  Storage storage, State first);

  // The same of a part; without first states.
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
  // kFullResidual: of each step, with Storage::kCPoints of each block.
  Result<std::span<const double>> Parts(NormParts parts) override;
  double UnitRoundoff() const override { return propagator_->UnitRoundoff(); }

  // How many states Make creates.
  static int64_t StatesFor(const Hierarchy& hierarchy, int lanes, Storage storage);

  void SetInlet(Inlet& inlet) override { inlet_ = &inlet; }
  Status SetFirst(State first) override;

  Storage storage() const { return storage_; }
  State first() override { return grids_[0].states.front(); }
  State last() override { return grids_[0].states.back(); }
  State c_point(int level, int number) override { return CPoint(level, number); }
  State state(int level, int number) override { return grids_[level].states[number]; }
  State source(int level, int number) override { return grids_[level].source[number]; }
  Status Copy(State from, State to) override { return propagator_->Combine(to, 0, 1, from, 0); }
  Status Join() override { return propagator_->Join(); }

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
              const PartTraits& traits)
      : propagator_(&propagator),
        hierarchy_(&hierarchy),
        lanes_(&lanes),
        storage_(storage),
        traits_(traits) {}

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
  int BlockAt(int task, int blocks) const { return traits_.has_inlet ? (task + 1) % blocks : task; }
  Status AwaitFirst(int level, int block, int lane) {
    return traits_.has_inlet && block == 0 ? inlet_->AwaitFirst(level, lane) : Status::Ok();
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
  PartTraits traits_;
  Inlet* inlet_ = nullptr;
  std::vector<Grid> grids_;                  // one for each level
  std::vector<std::vector<State>> scratch_;  // by lane
  std::vector<double> parts_;                // of a sum
  std::vector<double> sizes_;                // of C-points behind u0, squared
};

}  // namespace ucudnn::multigrid
