// Measuring engines on a device: on a stream, a handle and memory of ours, all given back before
// returning. The caller's buffers are neither read nor written.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "cuda/resources.h"
#include "cudnn/functions.h"
#include "planning/measurement_store.h"
#include "tuning/budget.h"
#include "tuning/engine_scope.h"

namespace ucudnn::tuning {

// Where to measure. Thread-safe as far as the driver and cuDNN are.
struct Device {
  const cuda::Driver* driver = nullptr;
  const cudnn::Functions* functions = nullptr;
  CUcontext context = nullptr;
  planning::Platform platform;
};

// What the driver and cuDNN say of the device of the current context.
Result<planning::Platform> DescribePlatform(const cuda::Driver& driver,
                                            const cudnn::Functions& functions);
// Of `device`, which need not have a context.
Result<planning::Platform> DescribePlatform(const cuda::Driver& driver,
                                            const cudnn::Functions& functions, CUdevice device);

// A free-standing name of the device of `device`'s context, the same in every process of the host.
Result<std::string> DeviceName(const Device& device);

// Bounds of one measurement. Overrun by at most one run of one engine.
struct MeasureLimits {
  Clock::time_point deadline = Clock::time_point::max();
  size_t memory_bytes = std::numeric_limits<size_t>::max();  // operands and workspace together
};

struct EngineMeasurements {
  std::vector<planning::Measurement> measurements;
  std::vector<int> complete_sizes;  // every engine there is, is measured or was known
  // Sizes at which an engine was left out because it found no memory: another time, or in another
  // process, it may be the fastest.
  std::vector<int> scarce_sizes;
  bool engine_failed = false;  // one was left out for whatever else
  // Sizes at which an engine was left out because the deadline was over.
  std::vector<int> late_sizes;
  Status failure;         // of the engines, where only what sums partials was measured
  bool sum_late = false;  // what sums partials was left out for the same reason
};

// True for what need not be measured again: this engine at this size.
using IsKnown = std::function<bool(const std::string& engine, int size)>;

// Measures every engine of `scope` at each of `sizes` images of `problem`, in that order: the
// median of repeated runs. An engine that fails is left out. Where pieces are partials that are
// summed, measures what that costs first, as engine kPartialSum at kPartialSumBatch. An error when
// nothing could be tried at all.
Result<EngineMeasurements> MeasureEngines(const Device& device, const ConvolutionProblem& problem,
                                          const std::vector<int>& sizes,
                                          const MeasureLimits& limits, const IsKnown& is_known,
                                          const EngineScope& scope);

}  // namespace ucudnn::tuning
