// The costs of the steps on all levels of a stage, on one device. Thread-compatible.
#pragma once

#include <vector>

#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/hierarchy.h"

namespace ucudnn::multigrid {

// Steps are numbered as in Hierarchy. With kAdjoint, step 0 is the adjoint of the level's last
// step.
class LevelCosts {
 public:
  // `kinds` has the kind of each layer of the stage, in forward order; `pass` is kForward or
  // kAdjoint. An adjoint is linearised at the states of the solve with the costs `linearised_at`.
  // All references and pointers must outlive the object.
  LevelCosts(const LayerTimes& times, LayerPass pass, std::vector<int> kinds,
             const Hierarchy& hierarchy, CoarseOperator coarse,
             const LevelCosts* linearised_at = nullptr);

  // Returns the cost of steps begin to end - 1 of a level, run one after the other.
  RunCost InRow(int level, int begin, int end) const;
  // Returns the cost of computing again the F-points of steps begin to end - 1 of the finest level.
  // REQUIRES: these steps are whole blocks, or the beginning of one block.
  RunCost FStepsAgain(int begin, int end) const;
  // The adjoint's steps `begin` to `end` - 1 of the finest level are linearised at states of the
  // chain. Returns the cost of computing these states again. With kForward the cost is 0.
  RunCost StatesAgain(int begin, int end) const;
  // Returns the cost of step `position` of each of the blocks first_block to end_block - 1, run at
  // once. Blocks without such a step do not count.
  RunCost AtOnce(int level, int first_block, int end_block, int position) const;
  // Returns the cost of steps begin to end - 1 of a level, run at once.
  RunCost StepsAtOnce(int level, int begin, int end) const;

  const Hierarchy& hierarchy() const { return hierarchy_; }

 private:
  RunCost StepCost(int level, const std::vector<int>& steps) const;

  const LayerTimes& times_;
  const LayerPass pass_;
  const std::vector<int> kinds_;
  const Hierarchy& hierarchy_;
  const CoarseOperator coarse_;
  const LevelCosts* const linearised_at_;
  std::vector<std::vector<int>> layers_before_;  // [kind][n]: layers of the kind before layer n
  std::vector<std::vector<RunCost>> sums_;       // [level][n]: cost of the steps before step n
};

}  // namespace ucudnn::multigrid
