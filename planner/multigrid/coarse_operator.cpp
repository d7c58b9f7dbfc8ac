#include "planner/multigrid/coarse_operator.h"

#include <utility>

#include "base/text.h"

namespace ucudnn::multigrid {
namespace {

constexpr CoarseOperator kOperators[] = {CoarseOperator::kInject, CoarseOperator::kSum,
                                         CoarseOperator::kSum2};

LayerRanges LayersFrom(int begin, int span, CoarseOperator coarse, double h) {
  const int end = begin + span;
  if (span == 1) return {{{begin, end, h}}};
  switch (coarse) {
    case CoarseOperator::kInject:
      return {{{begin, begin + 1, h * span}}};
    case CoarseOperator::kSum:
      return {{{begin, end, h}}};
    case CoarseOperator::kSum2:
      return {{{begin, begin + span / 2, h}, {begin + span / 2, end, h}}, 2};
  }
  return {};
}

}  // namespace

const char* NameOf(CoarseOperator coarse) {
  switch (coarse) {
    case CoarseOperator::kInject:
      return "inject";
    case CoarseOperator::kSum:
      return "sum";
    case CoarseOperator::kSum2:
      return "sum2";
  }
  return "";
}

Result<CoarseOperator> ParseCoarseOperator(const std::string& name) {
  std::vector<std::string> names;
  for (const CoarseOperator coarse : kOperators) {
    if (name == NameOf(coarse)) return coarse;
    names.push_back(NameOf(coarse));
  }
  return Status::Error(Quoted(name) + " is no coarse operator; expected one of " +
                       Join(names, ", "));
}

LayerRanges LayersOf(CoarseOperator coarse, const Level& level, int step, double h) {
  return LayersFrom(step * level.span, level.span, coarse, h);
}

LayerRanges AdjointLayersOf(CoarseOperator coarse, const Level& level, int step, double h) {
  LayerRanges ranges = LayersOf(coarse, level, level.steps - 1 - step, h);
  if (ranges.count == 2) std::swap(ranges.parts[0], ranges.parts[1]);
  return ranges;
}

}  // namespace ucudnn::multigrid
