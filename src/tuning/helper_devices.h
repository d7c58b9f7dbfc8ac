// Devices that a process measures on beside the one it runs on, where its user names them. Opened
// when first needed and held until nobody is to measure any more. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/options.h"
#include "tuning/held_device.h"

namespace ucudnn::tuning {

class HelperDevices {
 public:
  explicit HelperDevices(BenchmarkDevices wanted) : wanted_(std::move(wanted)) {}
  HelperDevices(const HelperDevices&) = delete;
  HelperDevices& operator=(const HelperDevices&) = delete;

  // Those that measure what `device` would: of its model and driver, but not itself. One warning
  // for each that is left out.
  // Held at least as long as the caller keeps them.
  std::vector<std::shared_ptr<HeldDevice>> Beside(const Device& device);
  // Measuring is over, for all that is known: whoever measures after all opens them again.
  void Release();

 private:
  const BenchmarkDevices wanted_;
  std::mutex mutex_;
  // Of the model that was asked about first. None: not tried yet.
  std::optional<std::vector<std::shared_ptr<HeldDevice>>> held_;
};

}  // namespace ucudnn::tuning
