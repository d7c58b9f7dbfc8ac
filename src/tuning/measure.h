// Measures engines on a device: on a stream, a handle and memory of ours, all given back before
// returning. The caller's buffers are neither read nor written.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"
#include "cuda/resources.h"
#include "cudnn/functions.h"
#include "planning/measurement_store.h"
#include "tuning/budget.h"
#include "tuning/engine_scope.h"
#include "tuning/measuring_progress.h"

namespace ucudnn::tuning {

// A place to measure. The caller owns what it points to. Thread-safe as far as the driver and cuDNN
// are.
struct Device {
  const cuda::Driver* driver = nullptr;
  const cudnn::Functions* functions = nullptr;
  CUcontext context = nullptr;
  planning::Platform platform;
};

// The device of the current context, as the driver and cuDNN describe it.
Result<planning::Platform> DescribePlatform(const cuda::Driver& driver,
                                            const cudnn::Functions& functions);
// The same of `device`, which need not have a context.
Result<planning::Platform> DescribePlatform(const cuda::Driver& driver,
                                            const cudnn::Functions& functions, CUdevice device);

// The UUID, in hexadecimal digits, of the device of `device`'s context: the same in every process
// of the host.
Result<std::string> DeviceName(const Device& device);

// Bytes of the device's L2 cache; 0 when the driver does not say.
size_t L2Bytes(const Device& device);

// Bounds of one measurement. It exceeds them by at most one run of one engine, or by preparing the
// engines of one size.
struct MeasureLimits {
  Clock::time_point deadline = Clock::time_point::max();
  size_t memory_bytes = std::numeric_limits<size_t>::max();  // operands and workspace together
  // Set: only what brings the kernel under a workspace of so many bytes. That is engines that run
  // all its images within it, then smaller pieces of engines that do not, each time the least
  // workspace first. Sizes are neither complete nor late then.
  std::optional<size_t> fit_bytes;
};

struct EngineMeasurements {
  std::vector<planning::Measurement> measurements;
  // Sizes at which every engine there is was measured now or before.
  std::vector<int> complete_sizes;
  // Sizes at which an engine found no memory and was left out. At another time, or in another
  // process, it may be the fastest.
  std::vector<int> scarce_sizes;
  bool engine_failed = false;  // an engine was left out for any other reason
  // Sizes at which an engine was left out because the deadline had passed.
  std::vector<int> late_sizes;
  Status failure;            // of the engines, where only what sums partials was measured
  bool sum_late = false;     // what sums partials was left out for the same reason
  int twins = 0;             // measurements that another engine's are, too (EngineChoice::twin)
  bool all_fitting = false;  // all was tried that MeasureLimits::fit_bytes means
};

// Returns true for an engine at a size that need not be measured again.
using IsKnown = std::function<bool(const EngineId& engine, int size)>;

// What is to be measured: the engines of `scope` at each of `sizes` images of `problem`. Several
// threads use `is_known`, `progress` and what `scope` makes at once.
struct MeasuringTask {
  ConvolutionProblem problem;
  std::vector<int> sizes;
  EngineScope scope;
  IsKnown is_known;
  MeasuringProgress& progress = MeasuringProgress::None();
  // Whole problems of one image are partials, too: tiles of an image.
  bool are_partials = false;
  // Set: the problem is the twin (SlackTwin) of this packed tile, whose copies are to be measured.
  const TileKind* packed = nullptr;
};

// Measures every engine of `task` at each of its sizes, in that order: the median of repeated runs,
// also in the name of its twin. An engine that fails is left out. Where pieces are partials that
// are summed, measures what that costs first, as engine kPartialSum at kPartialSumBatch; of a
// packed tile what its copies cost, as engine kPacking. An error when nothing could be tried at
// all.
Result<EngineMeasurements> MeasureEngines(const Device& device, const MeasuringTask& task,
                                          const MeasureLimits& limits);

}  // namespace ucudnn::tuning
