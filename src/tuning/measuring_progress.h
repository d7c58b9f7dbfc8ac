// Tells what a thread of the program waits for while its kernels are measured. src/tuning calls
// this interface, and an implementation shows it. Implementations are thread-safe.
#pragma once

#include <cstddef>

#include "convolution/problem.h"

namespace ucudnn::tuning {

enum class Activity { kWaitingForDevice, kBuildingEngines, kMeasuring, kComparing };

struct MeasuringStep {
  Activity activity = Activity::kMeasuring;
  const ConvolutionProblem* problem = nullptr;  // with its mini-batch; null: no kernel
  // While kMeasuring: the micro-batch, and which of how many engines is measured, counted from 1;
  // 0: the summing of partials.
  int micro_batch = 0;
  size_t engine = 0;
  size_t engines = 0;
};

// This base class does nothing.
class MeasuringProgress {
 public:
  virtual ~MeasuringProgress() = default;

  // Begin is called when a thread of the program begins to wait, End when it has waited; Waiting
  // calls both.
  virtual void Begin() noexcept {}
  virtual void End() noexcept {}
  // Tells the step that is done from now on, or still is, for a waiting thread; any thread may call
  // it.
  virtual void Tell(const MeasuringStep&) noexcept {}

  // Returns the progress of measurements that no caller waits for.
  static MeasuringProgress& None();
};

// The calling thread waits as long as this lives.
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
