// Work spread over devices: each has a thread of its own and takes the next unit when it is done
// with one. Blocks its caller; whatever is called from here must be thread-safe.
#pragma once

#include <cstddef>
#include <functional>

#include "base/status.h"

namespace ucudnn::tuning {

// Does one unit on one device, whose thread calls it. An error is a device that fails.
using DoUnit = std::function<Status(size_t device, size_t unit)>;
// Called for a device that failed at a unit, which another does then; one call at a time.
using DeviceLost = std::function<void(size_t device, const Status& why)>;

// Does units 0 to `units` - 1, begun in this order, on `devices` devices; the first of both on the
// calling thread. A device that fails gets no further unit, and another does the one it had. When
// every device failed: the last one's error, and some units are not done.
Status SpreadOverDevices(size_t devices, size_t units, const DoUnit& do_unit,
                         const DeviceLost& lost);

}  // namespace ucudnn::tuning
