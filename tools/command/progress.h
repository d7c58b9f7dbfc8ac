// Shows progress on stderr. Class Progress is for measuring layers: it prints warnings and, on a
// terminal, rewrites a line with the current layer and the time left. Progress is thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "convolution/layer.h"

namespace ucudnn::command {

// Returns the number of multiplications of the undivided kernel. Measuring the kernel takes a time
// about proportional to this number.
double MeasuringWork(const ConvolutionProblem& problem);

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class Progress {
 public:
  // Warn() calls `warn`, which prints a line on stderr. If `rewrites`, stderr is a terminal that
  // can rewrite a line.
  Progress(const std::vector<Layer>& layers, bool rewrites,
           std::function<void(const std::string&)> warn);

  // Sets the number of devices that measure at the same time. Before this call it is one.
  void UseDevices(size_t devices);
  void Begin(const Layer& layer);
  void Done(const Layer& layer);
  void Warn(const std::string& line);
  // Erases the current line.
  void Clear();

 private:
  std::string TimeLeft() const UCUDNN_REQUIRES(mutex_);

  const bool rewrites_;
  const std::function<void(const std::string&)> warn_;
  const size_t layers_;
  const Stopwatch stopwatch_;
  double work_ = 0;
  Mutex mutex_;
  double work_done_ UCUDNN_GUARDED_BY(mutex_) = 0;
  size_t devices_ UCUDNN_GUARDED_BY(mutex_) = 1;
  size_t at_ UCUDNN_GUARDED_BY(mutex_) = 0;
};

// Shows the progress of `ucudnn multigrid`, if stderr is a terminal: a text about the cycle or the
// epoch, and the time so far or the time left. Used from one thread.
class MultigridProgress {
 public:
  MultigridProgress();
  MultigridProgress(const MultigridProgress&) = delete;
  MultigridProgress& operator=(const MultigridProgress&) = delete;
  ~MultigridProgress() { Clear(); }

  // Shows "TEXT, 5.1 s".
  void Show(const std::string& text);
  // Shows "TEXT, about 2 min left". `share`, in [0, 1], is the share of all work that is done.
  void Show(const std::string& text, double share);
  // Erases the current line.
  void Clear();

 private:
  const bool rewrites_;
  const Stopwatch stopwatch_;
};

// Formats as "about 2 min left", with a suitable unit.
std::string TimeLeftText(double seconds);

}  // namespace ucudnn::command
