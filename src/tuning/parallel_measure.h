// Measures one kernel on several devices of one model at once. The micro-batch sizes are spread
// over the devices (spread.h); each device has its own thread, handle and memory. The caller waits
// until all devices are done. No thread's current context changes.
#pragma once

#include <optional>
#include <vector>

#include "tuning/device_lock.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

struct MeasuringPlace {
  Device device;
  MeasureLimits limits;            // bounds of measuring on this device
  std::optional<DeviceLock> lock;  // none: the caller holds the device's lock
};

// Runs MeasureEngines for some of the sizes on each of `places`. If a place fails at a size,
// another place measures that size. If an engine fails at a size on any place but the first, the
// first place measures that size again. The first place begins with the largest size.
Result<EngineMeasurements> MeasureAtPlaces(const std::vector<MeasuringPlace>& places,
                                           const MeasuringTask& task);

}  // namespace ucudnn::tuning
