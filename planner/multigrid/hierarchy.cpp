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
    const bool is_enough = finer.steps / factor < kFewestCoarseSteps;
    if (levels == 0 && (is_enough || finer.steps < kEnoughCoarseSteps)) break;
    if (is_enough) {
      return Status::Error("level " + std::to_string(made.levels()) + " would have " +
                           std::to_string(finer.steps / factor) + " layers (" +
                           std::to_string(finer.steps) + " coarsened by " + std::to_string(factor) +
                           "); at least 2 are expected: fewer levels or a smaller factor");
    }
    finer.coarsening = factor;
    made.levels_.push_back({.steps = finer.steps / factor, .span = finer.span * factor});
  }
  if (levels == 0 && made.levels() == 1 && coarsening.front() > steps) {
    return Status::Error("coarsening by " + std::to_string(coarsening.front()) + " of " +
                         std::to_string(steps) + " layers; at most " + std::to_string(steps / 2) +
                         " is expected");
  }
  return made;
}

}  // namespace ucudnn::multigrid
