// Measures one kernel on several like devices at once. Its micro-batch sizes are spread over them;
// each device has a thread, a handle and memory of its own. Blocks its caller. Everything taken is
// given back before returning, and no thread's current context changes.
#pragma once

#include <optional>
#include <vector>

#include "tuning/device_lock.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

struct MeasuringPlace {
  Device device;
  MeasureLimits limits;            // of this device
  std::optional<DeviceLock> lock;  // none: the caller holds the lock
};

// Runs MeasureEngines on the first of `places`, while the others measure some of the sizes for it.
// If a place fails at a size, another one measures it; if an engine failed at a size on another
// place, the first place measures it. The first place begins with the largest size.
Result<EngineMeasurements> MeasureAtPlaces(const std::vector<MeasuringPlace>& places,
                                           const MeasuringTask& task);

}  // namespace ucudnn::tuning
