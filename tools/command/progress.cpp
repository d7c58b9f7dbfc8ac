#include "command/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "command/numbers.h"
#include "options/options.h"

namespace ucudnn::command {

double MeasuringWork(const ConvolutionProblem& problem) {
  double work = static_cast<double>(problem.n) * problem.k * problem.c / problem.groups;
  for (const int extent : OutputExtents(problem)) work *= extent;
  for (const int extent : problem.w) work *= extent;
  return work;
}

Progress::Progress(const std::vector<Layer>& layers, bool rewrites,
                   std::function<void(const std::string&)> warn)
    : rewrites_(rewrites), warn_(std::move(warn)), layers_(layers.size()) {
  for (const Layer& layer : layers) work_ += MeasuringWork(layer.problem);
}

void Progress::UseDevices(size_t devices) {
  MutexLock lock(mutex_);
  devices_ = devices;
}

void Progress::Begin(const Layer& layer) {
  MutexLock lock(mutex_);
  at_ = std::min(at_ + 1, layers_);  // a layer that fails on one device begins twice
  if (!rewrites_) return;
  std::string text = "measuring " + std::to_string(at_) + "/" + std::to_string(layers_);
  if (devices_ > 1) text += " on " + std::to_string(devices_) + " devices";
  text += ": " + layer.name + " " + OperationName(layer.problem.operation) + TimeLeft();
  StderrLine().Show(text);
}

void Progress::Done(const Layer& layer) {
  MutexLock lock(mutex_);
  work_done_ += MeasuringWork(layer.problem);
}

void Progress::Warn(const std::string& line) {
  MutexLock lock(mutex_);
  StderrLine().Erase();
  warn_(line);
}

void Progress::Clear() { StderrLine().Erase(); }

std::string Progress::TimeLeft() const {
  if (work_done_ <= 0) return {};
  return ", " + TimeLeftText(stopwatch_.Seconds() * (work_ / work_done_ - 1));
}

namespace {

// Returns whether stderr is a terminal that can rewrite a line. Drops the warnings about variables,
// which other code prints.
bool RewritesLinesHere() {
  std::vector<std::string> warnings;
  return OptionsOfEnvironment(warnings, Use::kPlanning).rewrites_lines;
}

}  // namespace

MultigridProgress::MultigridProgress() : rewrites_(RewritesLinesHere()) {}

void MultigridProgress::Show(const std::string& text) {
  if (rewrites_) StderrLine().Show(text + NumberText(", %.1f s", stopwatch_.Seconds()));
}

void MultigridProgress::Show(const std::string& text, double share) {
  const std::string left =
      share > 0 ? ", " + TimeLeftText(stopwatch_.Seconds() * (1 / share - 1)) : std::string();
  if (rewrites_) StderrLine().Show(text + left);
}

void MultigridProgress::Clear() { StderrLine().Erase(); }

std::string TimeLeftText(double seconds) {
  const double whole = std::max(1.0, std::ceil(seconds));
  const auto about = [](double number, const char* unit) {
    return "about " + std::to_string(std::llround(number)) + " " + unit + " left";
  };
  if (whole < 90) return about(whole, "s");
  if (whole < 90 * 60) return about(whole / 60, "min");
  return about(whole / 3600, "h");
}

}  // namespace ucudnn::command
