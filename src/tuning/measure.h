// Measuring engines on a device: on a stream, a handle and memory of ours, all given back before
// returning. The caller's buffers are neither read nor written.
#pragma once

#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "cuda/resources.h"
#include "cudnn/functions.h"
#include "planning/measurement_store.h"

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

struct EngineMeasurements {
  std::vector<planning::Measurement> measurements;
  // Sizes at which an engine was left out because its workspace found no memory: another time, or
  // in another process, it may be the fastest.
  std::vector<int> scarce_sizes;
};

// Measures every engine of `problem` at each of `sizes` images: the median of repeated runs. An
// engine that fails or finds no memory is left out. An error when nothing could be measured at all.
Result<EngineMeasurements> MeasureEngines(const Device& device, const ConvolutionProblem& problem,
                                          const std::vector<int>& sizes);

}  // namespace ucudnn::tuning
