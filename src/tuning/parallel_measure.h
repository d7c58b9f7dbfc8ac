// Measuring one kernel on several like devices at once: its micro-batch sizes are spread over them,
// each with a thread, a handle and memory of its own. Blocks its caller; everything taken is given
// back before returning, and no thread's current context is changed.
#pragma once

#include <optional>
#include <vector>

#include "tuning/device_lock.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

struct MeasuringPlace {
  Device device;
  MeasureLimits limits;            // of this device
  std::optional<DeviceLock> lock;  // that is held; none: by somebody else for us
};

// As MeasureEngines on the first of `places`, in whose place the others measure some sizes; what
// one of those fails at is measured by another, and where an engine fails on one, the first
// measures the size. The first of them begins with the largest size. `is_known` and what `scope`
// makes are used by several threads at once.
Result<EngineMeasurements> MeasureAtPlaces(const std::vector<MeasuringPlace>& places,
                                           const ConvolutionProblem& problem,
                                           const std::vector<int>& sizes, const IsKnown& is_known,
                                           const EngineScope& scope);

}  // namespace ucudnn::tuning
