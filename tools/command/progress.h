// What a user sees while layers are measured: the current one, and how long the others will take,
// on a terminal; warnings as lines of their own everywhere. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "convolution/layer.h"

namespace ucudnn::command {

// Multiplications of the undivided kernel: what the time of its measurements grows with.
double MeasuringWork(const ConvolutionProblem& problem);

class Progress {
 public:
  // `warn` prints a line on stderr. `rewrites`: a terminal there can rewrite a line.
  Progress(const std::vector<Layer>& layers, bool rewrites,
           std::function<void(const std::string&)> warn);

  // How many devices measure at once; one until this is called.
  void UseDevices(size_t devices);
  void Begin(const Layer& layer);
  void Done(const Layer& layer);
  void Warn(const std::string& line);
  // Takes the line away.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string TimeLeft() const UCUDNN_REQUIRES(mutex_);

  const bool rewrites_;
  const std::function<void(const std::string&)> warn_;
  const size_t layers_;
  const Clock::time_point begin_ = Clock::now();
  double work_ = 0;
  Mutex mutex_;
  double work_done_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t devices_ UCUDNN_GUARDED_BY(mutex_) = 1;
  size_t at_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

// "about 2 min left", in the unit that a person would say.
std::string TimeLeftText(double seconds);

}  // namespace ucudnn::command
