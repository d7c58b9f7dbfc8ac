// Measures engines on a device, with a stream, a handle and memory of ucudnn's own. The stream and
// the memory are freed afterwards, and the handle is kept (spare_handles.h). The caller's buffers
// are neither read nor written. Thread-safe as far as the driver and cuDNN are.
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

// The device on which to measure, with its libraries and context. The caller owns the objects to
// which the pointers point. Thread-safe as far as the driver and cuDNN are.
struct Device {
  const cuda::Driver* driver = nullptr;
  const cudnn::Functions* functions = nullptr;
  CUcontext context = nullptr;
  planning::Platform platform;
};

// Returns the platform of the current context's device, as the driver and cuDNN describe it.
Result<planning::Platform> DescribePlatform(const cuda::Driver& driver,
                                            const cudnn::Functions& functions);
// Returns the platform of `device`, which needs no context.
Result<planning::Platform> DescribePlatform(const cuda::Driver& driver,
                                            const cudnn::Functions& functions, CUdevice device);

// Returns the UUID, in hexadecimal digits, of the device of `device.context`. Every process of the
// host gets the same UUID for a device.
Result<std::string> DeviceName(const Device& device);

// Returns the bytes of the device's L2 cache; 0 if the driver reports none.
size_t L2Bytes(const Device& device);

// The bounds of one measurement. A run of an engine that has begun, or preparing the engines of one
// size, is not cut short at the deadline.
struct MeasureLimits {
  Clock::time_point deadline = Clock::time_point::max();
  size_t memory_bytes = std::numeric_limits<size_t>::max();  // for operands and workspace together
  // If set, measures only engines and pieces with which the kernel fits a workspace of this many
  // bytes. Engines that run all of the kernel's images within this workspace come first. Smaller
  // pieces of the other engines follow. Each of the two groups is in ascending order of workspace.
  // No size is then reported as complete or as late.
  std::optional<size_t> fit_bytes;
};

struct EngineMeasurements {
  std::vector<planning::Measurement> measurements;
  // Sizes at which every engine that the library lists was measured, now or before, or failed.
  std::vector<int> complete_sizes;
  // Sizes at which an engine was left out because there was not enough memory. That engine may be
  // the fastest one, and may be measured at another time or in another process.
  std::vector<int> scarce_sizes;
  bool engine_failed = false;  // an engine failed or lacked memory
  // Sizes at which an engine was left out because the deadline had passed.
  std::vector<int> late_sizes;
  Status failure;         // why engines failed, if nothing but the summing of partials was measured
  bool sum_late = false;  // the deadline had passed before the summing of partials was measured
  int twins = 0;          // measurements that were copied from a twin (EngineChoice::twin)
  bool all_fitting = false;  // everything that MeasureLimits::fit_bytes asks for was tried
};

// Returns whether the measurement of an engine at a size is known already, so that it is not made
// again.
using IsKnown = std::function<bool(const EngineId& engine, int size)>;

// A task to measure the engines of `scope` for `problem`, with each of `sizes` as its number of
// images. Several threads may use `is_known`, `progress` and the engines of `scope` at once.
struct MeasuringTask {
  ConvolutionProblem problem;
  std::vector<int> sizes;
  EngineScope scope;
  IsKnown is_known;
  MeasuringProgress& progress = MeasuringProgress::None();
  // True if `problem` is a tile whose result is summed with the results of other tiles. Its pieces
  // are then partials even if they have all images of `problem`.
  bool are_partials = false;
  // If set, `problem` is the slack twin (SlackTwin) of this packed tile. The copies of the tile are
  // then measured, too.
  const TileKind* packed = nullptr;
};

// Measures the engines of `task` at its sizes, in the order of the sizes. With limits.fit_bytes,
// measures only what fit_bytes asks for, in the order that is stated there. Leaves out engines that
// are known, that fail or that exceed the limits. A measurement is the median of up to five samples
// (one sample for an engine that is hopelessly slow). If an engine has a twin (EngineChoice::twin),
// its measurements are also recorded for the twin.
//
// If the engines' plans need them, first measures the copies of a packed tile (kPacking) and the
// summing of partials (kPartialSum at size kPartialSumBatch), in this order.
//
// Fails if the tensors fit at no size, or if the device refuses the stream, the handle or the
// operands. Without limits.fit_bytes, also fails if packing fails, or if nothing was measured
// although there was time and not everything was known.
Result<EngineMeasurements> MeasureEngines(const Device& device, const MeasuringTask& task,
                                          const MeasureLimits& limits);

}  // namespace ucudnn::tuning
