#include "planner/multigrid/hierarchy.h"

#include <string>

namespace ucudnn::multigrid {
namespace {

constexpr int kFewestCoarseSteps = 2;
constexpr int kEnoughCoarseSteps = 8;

}  // namespace

Result<Hierarchy> Hierarchy::Make(int steps, const std::vector<int>& coarsening, int levels) {
  if (steps < 1 || (steps < kFewestCoarseSteps && levels != 1)) {
    return Status::Error("a chain of " + std::to_string(steps) +
                         " residual layers has nothing to solve at once; 2 and more are expected");
  }
  if (levels < 0) {
    return Status::Error(std::to_string(levels) + " levels; 1 and more are expected");
  }
  Hierarchy made;
  made.levels_.push_back({.steps = steps});
  while (made.levels() != levels) {
    Level& finer = made.levels_.back();
    if (coarsening.empty()) return Status::Error("no coarsening factor; 2 and more are expected");
    const size_t number = made.levels_.size() - 1;
    const int factor = number < coarsening.size() ? coarsening[number] : coarsening.back();
    if (factor < 2) {
      return Status::Error("coarsening by " + std::to_string(factor) + "; 2 and more are expected");
    }
    const bool leaves_too_few = finer.steps / factor < kFewestCoarseSteps;
    const bool is_coarse = made.levels() > 1 && finer.steps < kEnoughCoarseSteps;
    if (levels == 0 && (leaves_too_few || is_coarse)) break;
    if (leaves_too_few) {
      const int left = finer.steps / factor;
      return Status::Error("level " + std::to_string(made.levels() + 1) + " would have " +
                           std::to_string(left) + (left == 1 ? " layer (" : " layers (") +
                           std::to_string(finer.steps) + " coarsened by " + std::to_string(factor) +
                           "); at least 2 are expected: fewer levels or a smaller factor");
    }
    finer.coarsening = factor;
    made.levels_.push_back({.steps = finer.steps / factor, .span = finer.span * factor});
  }
  if (levels != 0 || made.levels() > 1) return made;
  constexpr int kLeastFactor = 2;
  if (steps < kLeastFactor * kFewestCoarseSteps) {
    return Status::Error("a chain of " + std::to_string(steps) + " residual layers is too short " +
                         "for two levels; " + std::to_string(kLeastFactor * kFewestCoarseSteps) +
                         " layers and more, or one level, are expected");
  }
  return Status::Error("coarsening by " + std::to_string(coarsening.front()) + " of " +
                       std::to_string(steps) + " layers leaves fewer than 2; at most " +
                       std::to_string(steps / kFewestCoarseSteps) + " is expected");
}

Hierarchy Hierarchy::Mirrored() const {
  Hierarchy mirrored = *this;
  for (Level& level : mirrored.levels_) level.lead = level.steps - level.last_c_point();
  return mirrored;
}

Hierarchy Hierarchy::Part(int begin, int end, int levels) const {
  Hierarchy part;
  for (int number = 0; number < levels; ++number) {
    Level level = levels_[number];
    const int last = end == levels_[0].steps ? level.steps : end / level.span;
    level.steps = last - begin / level.span;
    if (number + 1 == levels) level.coarsening = 1;
    part.levels_.push_back(level);
  }
  return part;
}

Hierarchy Hierarchy::CoarseLevels(int first) const {
  Hierarchy coarse;
  coarse.levels_.assign(levels_.begin() + first, levels_.end());
  return coarse;
}

}  // namespace ucudnn::multigrid
