// What a thread of the program waits for while its kernels are measured. Told by this floor, shown
// by whoever implements it. Implementations are thread-safe.
#pragma once

#include <cstddef>

#include "convolution/problem.h"

namespace ucudnn::tuning {

enum class Activity { kWaitingForDevice, kBuildingEngines, kMeasuring, kComparing };

struct MeasuringStep {
  Activity activity = Activity::kMeasuring;
  const ConvolutionProblem* problem = nullptr;  // with its mini-batch; null: of no kernel
  // While kMeasuring, these say at which micro-batch which of how many engines is measured, counted
  // from 1; 0: what sums partials.
  int micro_batch = 0;
  size_t engine = 0;
  size_t engines = 0;
};

// Does nothing.
class MeasuringProgress {
 public:
  virtual ~MeasuringProgress() = default;

  // A thread of the program begins to wait; Waiting calls both.
  virtual void Begin() noexcept {}
  virtual void End() noexcept {}
  // What is done from now on, or still is, for a thread that waits; any thread may tell.
  virtual void Tell(const MeasuringStep&) noexcept {}

  // One for those whom nobody waits for.
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
