// The states of a chain in blocks that run on lanes, on top of any Propagator. Results do not
// depend on the number of lanes, to the bit.
#pragma once

#include <cstdint>
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

class BlockSystem : public LayerSystem {
 public:
  // `first` is u0, of `propagator`; it is copied. Null: SetFirst comes before the first solve.
  // `propagator`, `hierarchy` and `lanes` outlive the system.
  static Result<BlockSystem> Make(Propagator& propagator, const Hierarchy& hierarchy, Lanes& lanes,
                                  Storage storage, State first);

  Status Broadcast() override;
  Status RelaxF(int level, Source source) override;
  Status Advance(int level) override;
  Status RelaxC(int level, double weight) override;
  Status Restrict(int level) override;
  Status SolveSerially(int level, Source source) override;
  Status Correct(int level) override;
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
  State last() const { return grids_[0].states.back(); }  // the stage's output

  // The states of the finest level from C-point `block` on, up to the next one or, in the last
  // block, with the last state; F-points as they follow from the C-point. What is not kept is
  // computed into `scratch`, which has as many states as the block F-points.
  Status ReadBlock(int block, const std::vector<State>& scratch, int lane,
                   std::vector<State>& states);
  // The first `count` of them; `states` has none or some already, which are not computed again.
  Status ReadOn(int block, int count, const std::vector<State>& scratch, int lane,
                std::vector<State>& states);

 private:
  // The states of one level and what restriction made of the one below.
  struct Grid {
    // By state; of the finest level with Storage::kCPoints by C-point, and the last state behind
    // them. The first one is the same on all levels.
    std::vector<State> states;
    std::vector<State> source;  // g by state; [0] is not used. Empty on the finest level
  };

  BlockSystem(Propagator& propagator, const Hierarchy& hierarchy, Lanes& lanes, Storage storage)
      : propagator_(&propagator), hierarchy_(&hierarchy), lanes_(&lanes), storage_(storage) {}

  bool KeepsF(int level) const { return level > 0 || storage_ == Storage::kAll; }
  State& CPoint(int level, int block) {
    return grids_[level]
        .states[KeepsF(level) ? block * hierarchy_->level(level).coarsening : block];
  }
  // to = Phi(from) + g[step + 1].
  Status Step(int level, int step, State from, State to, Source source, int lane);
  // Runs the steps from the C-point `block` on up to, not including, `end`, in the lane's scratch,
  // the last one into `to`.
  Status StepThrough(int block, int end, State to, int lane);
  // work(task, lane) on the lanes, and then joins them.
  template <typename Work>
  Status ForEach(int tasks, Work&& work) {
    UCUDNN_RETURN_IF_ERROR(lanes_->ForEach(tasks, work));
    return propagator_->Join();
  }
  // The sum over `count` parts of what `part` gives for each, in their order.
  template <typename Part>
  Result<double> SumInOrder(int count, Part&& part);

  Propagator* propagator_;
  const Hierarchy* hierarchy_;
  Lanes* lanes_;
  Storage storage_;
  std::vector<Grid> grids_;                  // one for each level
  std::vector<std::vector<State>> scratch_;  // by lane
  std::vector<double> parts_;                // of a sum
  std::vector<double> sizes_;                // of C-points behind u0, squared
};

}  // namespace ucudnn::multigrid
