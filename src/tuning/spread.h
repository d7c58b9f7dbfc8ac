// Spreads units of work over devices. Each device has a thread, which takes the next unit whenever
// it has done one. The thread of device 0 is the caller's; every other device gets a new thread. A
// DoUnit must be thread-safe.
#pragma once

#include <cstddef>
#include <functional>

#include "base/status.h"

namespace ucudnn::tuning {

// Does one unit on one device, on the device's thread. An error means that the device failed.
using DoUnit = std::function<Status(size_t device, size_t unit)>;
// Called when a device has failed, unless no other device is left. Another device then does the
// unit of the failed device. Calls do not overlap in time.
using DeviceLost = std::function<void(size_t device, const Status& why)>;

// Does units 0 to `units` - 1 on `devices` devices. The units are begun in this order. Device 0
// works on the calling thread. A device that fails gets no further unit. If every device fails,
// returns the last error, and some units are not done.
Status SpreadOverDevices(size_t devices, size_t units, const DoUnit& do_unit,
                         const DeviceLost& lost);

}  // namespace ucudnn::tuning
