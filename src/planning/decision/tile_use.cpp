#include "planning/decision/tile_use.h"

namespace ucudnn::planning {
namespace {

// Returns the bytes of one image in x and in y together.
int64_t ImageBytes(const ConvolutionProblem& problem) {
  const Spatial y = OutputExtents(problem);
  const auto elements = [](int64_t channels, const Spatial& extents) {
    return channels * extents[0] * extents[1] * extents[2];
  };
  return (elements(problem.c, problem.x) + elements(problem.k, y)) *
         static_cast<int64_t>(ElementBytes(problem.type));
}

}  // namespace

bool IsVast(const ConvolutionProblem& problem, int64_t most_span) {
  return ViewSpan(1, problem.c, problem.x, problem.x_strides) > most_span ||
         ViewSpan(1, problem.k, OutputExtents(problem), problem.y_strides) > most_span;
}

TileUse UseOfTiles(const ConvolutionProblem& problem, const TileConditions& conditions) {
  const bool undivided = conditions.policy == BatchSizePolicy::kUndivided;
  if (!conditions.allowed || undivided || problem.n > kMostTiles) return TileUse::kNone;
  if (conditions.need_bytes > conditions.user_limit) return TileUse::kToFit;
  if (IsVast(problem, conditions.most_span)) return TileUse::kToGain;
  if (conditions.policy == BatchSizePolicy::kAll) return TileUse::kToGain;
  if (conditions.policy != BatchSizePolicy::kAuto || conditions.l2_bytes == 0) {
    return TileUse::kNone;
  }
  const bool converts =
      problem.layout == Layout::kNchw && conditions.need_bytes > conditions.l2_bytes;
  return converts && ImageBytes(problem) > static_cast<int64_t>(conditions.l2_bytes)
             ? TileUse::kToGain
             : TileUse::kNone;
}

}  // namespace ucudnn::planning
