#include "planner/multigrid/analysis/level_costs.h"

#include <algorithm>
#include <numeric>

namespace ucudnn::multigrid {

LevelCosts::LevelCosts(const LayerTimes& times, LayerPass pass, std::vector<int> kinds,
                       const Hierarchy& hierarchy, CoarseOperator coarse,
                       const LevelCosts* linearised_at)
    : times_(times),
      pass_(pass),
      kinds_(std::move(kinds)),
      hierarchy_(hierarchy),
      coarse_(coarse),
      linearised_at_(linearised_at) {
  const int last_kind = *std::max_element(kinds_.begin(), kinds_.end());
  layers_before_.assign(static_cast<size_t>(last_kind) + 1, std::vector<int>(kinds_.size() + 1, 0));
  for (size_t layer = 0; layer < kinds_.size(); ++layer) {
    for (size_t kind = 0; kind < layers_before_.size(); ++kind) {
      layers_before_[kind][layer + 1] =
          layers_before_[kind][layer] + (kinds_[layer] == static_cast<int>(kind) ? 1 : 0);
    }
  }
  for (int level = 0; level < hierarchy.levels(); ++level) {
    std::vector<RunCost> sums(1);
    for (int step = 0; step < hierarchy.level(level).steps; ++step) {
      RunCost sum = sums.back();
      sum += StepCost(level, {step});
      sums.push_back(sum);
    }
    sums_.push_back(std::move(sums));
  }
}

// Returns the cost of running these steps at once. Layers of the same kind run at once; different
// kinds run one after the other.
RunCost LevelCosts::StepCost(int level, const std::vector<int>& steps) const {
  struct Counted {
    double groups = 0;
    double layers = 0;
  };
  std::vector<Counted> counted(layers_before_.size());
  for (const int step : steps) {
    const Level& shape = hierarchy_.level(level);
    const LayerRange range = pass_ == LayerPass::kAdjoint ? AdjointLayersOf(coarse_, shape, step, 1)
                                                          : LayersOf(coarse_, shape, step, 1);
    const auto begin = static_cast<size_t>(range.begin);
    const auto end = static_cast<size_t>(range.end);
    for (size_t kind = 0; kind < layers_before_.size(); ++kind) {
      const int count = layers_before_[kind][end] - layers_before_[kind][begin];
      if (count == 0) continue;
      counted[kind].groups += 1;
      counted[kind].layers += count;
    }
  }
  RunCost cost;
  for (size_t kind = 0; kind < counted.size(); ++kind) {
    const Counted& of_kind = counted[kind];
    if (of_kind.layers == 0) continue;
    cost += times_.Cost(pass_,
                        {static_cast<int>(kind), of_kind.groups, of_kind.layers / of_kind.groups});
  }
  return cost;
}

RunCost LevelCosts::InRow(int level, int begin, int end) const {
  const std::vector<RunCost>& sums = sums_[level];
  const RunCost& before = sums[begin];
  const RunCost& behind = sums[end];
  return {behind.ms - before.ms, behind.work_ms - before.work_ms,
          behind.launches - before.launches};
}

RunCost LevelCosts::FStepsAgain(int begin, int end) const {
  const int coarsening = hierarchy_.level(0).coarsening;
  RunCost cost;
  for (int block = begin; block < end; block += coarsening) {
    cost += InRow(0, block, std::min(block + coarsening, end) - 1);
  }
  return cost;
}

RunCost LevelCosts::StatesAgain(int begin, int end) const {
  if (linearised_at_ == nullptr) return {};
  const int steps = hierarchy_.level(0).steps;
  return linearised_at_->FStepsAgain(steps - end, steps - begin);
}

RunCost LevelCosts::AtOnce(int level, int first_block, int end_block, int position) const {
  const Level& shape = hierarchy_.level(level);
  std::vector<int> steps;
  for (int block = first_block; block < end_block; ++block) {
    const int step = block * shape.coarsening + position;
    if (step < shape.steps) steps.push_back(step);
  }
  return StepCost(level, steps);
}

RunCost LevelCosts::StepsAtOnce(int level, int begin, int end) const {
  std::vector<int> steps(static_cast<size_t>(std::max(0, end - begin)));
  std::iota(steps.begin(), steps.end(), begin);
  return StepCost(level, steps);
}

}  // namespace ucudnn::multigrid
