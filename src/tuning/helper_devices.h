// Devices that the user names for measuring beside the one that the process runs on. They are
// opened when first needed, and held until Release. Thread-safe.
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

  // Returns the devices that may measure for `device`: those of its model and driver, without
  // itself. Warns once for each that is left out. The caller's pointers keep them open.
  std::vector<std::shared_ptr<HeldDevice>> Beside(const Device& device);
  // Releases the devices when, as far as is known, nothing is left to measure. A later Beside opens
  // them again.
  void Release();

 private:
  const BenchmarkDevices wanted_;
  Mutex mutex_;
  // Devices of the model that was asked about first. None: not opened yet.
  std::optional<std::vector<std::shared_ptr<HeldDevice>>> held_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::tuning
