#include "planner/multigrid/coarse_operator.h"

#include "base/text.h"

namespace ucudnn::multigrid {

const char* NameOf(CoarseOperator coarse) {
  return coarse == CoarseOperator::kInject ? "inject" : "sum";
}

Result<CoarseOperator> ParseCoarseOperator(const std::string& name) {
  for (const CoarseOperator coarse : {CoarseOperator::kInject, CoarseOperator::kSum}) {
    if (name == NameOf(coarse)) return coarse;
  }
  return Status::Error(Quoted(name) + " is no coarse operator; expected one of inject, sum");
}

LayerRange LayersOf(CoarseOperator coarse, const Level& level, int step, double h) {
  const int begin = step * level.span;
  if (coarse == CoarseOperator::kSum) return {begin, begin + level.span, h};
  return {begin, begin + 1, h * level.span};
}

LayerRange AdjointLayersOf(CoarseOperator coarse, const Level& level, int step, double h) {
  return LayersOf(coarse, level, level.steps - 1 - step, h);
}

}  // namespace ucudnn::multigrid
