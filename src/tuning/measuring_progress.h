// Shows what a thread of the program waits for while its kernels are measured. The code of
// src/tuning calls this interface; an implementation shows the steps to the user. Implementations
// are thread-safe.
#pragma once

#include <cstddef>

#include "convolution/problem.h"

namespace ucudnn::tuning {

enum class Activity { kWaitingForDevice, kBuildingEngines, kMeasuring, kComparing };

struct MeasuringStep {
  Activity activity = Activity::kMeasuring;
  const ConvolutionProblem* problem = nullptr;  // with its mini-batch; null: no single kernel
  // While kMeasuring: the micro-batch size, the number of the engine that is measured (from 1), and
  // how many engines there are. `micro_batch` and `engine` are 0 while the summing of partials is
  // measured.
  int micro_batch = 0;
  size_t engine = 0;
  size_t engines = 0;
};

// This base class does nothing.
class MeasuringProgress {
 public:
  virtual ~MeasuringProgress() = default;

  // Begin is called when a thread of the program begins to wait, End when it no longer waits. Class
  // Waiting calls both.
  virtual void Begin() noexcept {}
  virtual void End() noexcept {}
  // Says which step is now in progress for a waiting thread. Any thread may call it, also
  // repeatedly for the same step.
  virtual void Tell(const MeasuringStep&) noexcept {}

  // Returns an object that does nothing, for measurements for which no caller waits.
  static MeasuringProgress& None();
};

// Marks the calling thread as waiting while the object exists.
class Waiting {
 public:
  explicit Waiting(MeasuringProgress& progress) : progress_(progress) { progress_.Begin(); }
  ~Waiting() { progress_.End(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  MeasuringProgress& progress_;
};

}  // namespace ucudnn::tuning
