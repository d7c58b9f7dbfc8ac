#include "command/progress.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <utility>

namespace ucudnn::command {

double MeasuringWork(const ConvolutionProblem& problem) {
  double work = static_cast<double>(problem.n) * problem.k * problem.c / problem.groups;
  for (const int extent : OutputExtents(problem)) work *= extent;
  for (const int extent : problem.w) work *= extent;
  return work;
}

Progress::Progress(const std::vector<Layer>& layers, bool terminal,
                   std::function<void(const std::string&)> warn)
    : terminal_(terminal), warn_(std::move(warn)), layers_(layers.size()) {
  for (const Layer& layer : layers) work_ += MeasuringWork(layer.problem);
}

void Progress::UseDevices(size_t devices) {
  MutexLock lock(mutex_);
  devices_ = devices;
}

void Progress::Begin(const Layer& layer) {
  MutexLock lock(mutex_);
  at_ = std::min(at_ + 1, layers_);  // what failed on one device begins again on another
  if (!terminal_) return;
  std::cerr << "\r\033[Kmeasuring " << at_ << "/" << layers_;
  if (devices_ > 1) std::cerr << " on " << devices_ << " devices";
  std::cerr << ": " << layer.name << " " << OperationName(layer.problem.operation) << TimeLeft()
            << std::flush;
}

void Progress::Done(const Layer& layer) {
  MutexLock lock(mutex_);
  work_done_ += MeasuringWork(layer.problem);
}

void Progress::Warn(const std::string& line) {
  MutexLock lock(mutex_);
  if (terminal_) std::cerr << "\r\033[K" << std::flush;
  warn_(line);
}

void Progress::Clear() {
  MutexLock lock(mutex_);
  if (terminal_) std::cerr << "\r\033[K" << std::flush;
}

std::string Progress::TimeLeft() const {
  if (work_done_ <= 0) return {};
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  return ", " + TimeLeftText(seconds * (work_ / work_done_ - 1));
}

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
