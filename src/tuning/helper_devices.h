// Devices that the user names for measuring besides the device on which the process runs. They are
// opened when they are first needed, and stay open until Release. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "options/options.h"
#include "tuning/held_device.h"

namespace ucudnn::tuning {

class HelperDevices {
 public:
  explicit HelperDevices(BenchmarkDevices wanted) : wanted_(std::move(wanted)) {}
  HelperDevices(const HelperDevices&) = delete;
  HelperDevices& operator=(const HelperDevices&) = delete;

  // Returns the devices that may measure for `device`: the other devices of the same model and
  // driver. Warns once for each device that is left out. The returned pointers keep the devices
  // open.
  std::vector<std::shared_ptr<HeldDevice>> Beside(const Device& device);
  // Releases the devices; a later Beside opens them again. Callers call it when they know of
  // nothing that is left to measure.
  void Release();

 private:
  const BenchmarkDevices wanted_;
  Mutex mutex_;
  // Devices of the same model as the first device for which Beside was called. None: not opened
  // yet.
  std::optional<std::vector<std::shared_ptr<HeldDevice>>> held_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::tuning
