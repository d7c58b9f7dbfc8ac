#include "command/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

namespace ucudnn::command {
namespace {

// Multiplications of a layer: what measuring it takes grows with them.
double WorkOf(const ConvolutionProblem& problem) {
  double work = double{1} * problem.n * problem.k * problem.c / problem.groups;
  const Spatial y = OutputExtents(problem);
  for (int axis = 0; axis < kMaxSpatial; ++axis) work *= double{1} * y[axis] * problem.w[axis];
  return work;
}

}  // namespace

std::string TimeLeft(std::chrono::duration<double> passed, double done, double left) {
  const double seconds = std::ceil(passed.count() * left / done);
  if (!(done > 0) || !std::isfinite(seconds)) return {};
  const auto whole = static_cast<long>(std::min(seconds, 1e9));
  const std::string rest = std::to_string(whole % 60) + " s left";
  if (whole < 60) return rest;
  if (whole < 3600) return std::to_string(whole / 60) + " min " + rest;
  return std::to_string(whole / 3600) + " h " + std::to_string(whole / 60 % 60) + " min left";
}

Progress::Progress(const std::vector<Layer>& layers, size_t devices)
    : shown_(isatty(STDERR_FILENO) == 1),
      devices_(devices),
      begin_(std::chrono::steady_clock::now()),
      work_{0} {
  for (const Layer& layer : layers) work_.push_back(work_.back() + WorkOf(layer.problem));
}

void Progress::Next(const Layer& layer) {
  // What the other devices have begun with is not done.
  const size_t done = begun_ + 1 < devices_ ? 0 : begun_ + 1 - devices_;
  ++begun_;
  if (!shown_) return;
  const std::string left =
      TimeLeft(std::chrono::steady_clock::now() - begin_, work_[done], work_.back() - work_[done]);
  std::cerr << "\r\033[Kmeasuring " << begun_ << "/" << work_.size() - 1 << ": " << layer.name
            << " " << OperationName(layer.problem.operation)
            << (left.empty() ? "" : ", about " + left) << std::flush;
}

void Progress::Clear() const {
  if (shown_) std::cerr << "\r\033[K" << std::flush;
}

}  // namespace ucudnn::command
