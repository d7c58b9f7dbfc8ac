// What the steps of all levels of a stage cost on one device. Thread-compatible.
#pragma once

#include <vector>

#include "planner/multigrid/analysis/layer_times.h"
#include "planner/multigrid/coarse_operator.h"
#include "planner/multigrid/hierarchy.h"

namespace ucudnn::multigrid {

// Steps are numbered as Hierarchy has them: those of kAdjoint from the last layer on.
class LevelCosts {
 public:
  // `kinds` are those of the stage's layers, from the first on; `pass` is kForward or kAdjoint. All
  // but `kinds` outlive the costs.
  LevelCosts(const LayerTimes& times, LayerPass pass, std::vector<int> kinds,
             const Hierarchy& hierarchy, CoarseOperator coarse);

  // Steps begin to end - 1 of a level, one after the other.
  RunCost InRow(int level, int begin, int end) const;
  // Step `position` of each of these blocks, at once. Blocks that have no such step are left out.
  RunCost AtOnce(int level, int first_block, int end_block, int position) const;
  // Steps begin to end - 1 of a level, at once.
  RunCost StepsAtOnce(int level, int begin, int end) const;

  const Hierarchy& hierarchy() const { return hierarchy_; }

 private:
  RunCost StepCost(int level, const std::vector<int>& steps) const;

  const LayerTimes& times_;
  const LayerPass pass_;
  const std::vector<int> kinds_;
  const Hierarchy& hierarchy_;
  const CoarseOperator coarse_;
  std::vector<std::vector<int>> counts_;    // [kind][n]: layers of that kind before layer n
  std::vector<std::vector<RunCost>> sums_;  // [level][n]: of the steps before step n
};

}  // namespace ucudnn::multigrid
