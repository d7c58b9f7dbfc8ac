// Devices that a process measures on beside the one it runs on, where its user names them. Opened
// when first needed and held as long as the object lives. Thread-safe.
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
  std::vector<Device> Beside(const Device& device);

 private:
  const BenchmarkDevices wanted_;
  std::mutex mutex_;
  // Of the model that was asked about first. None: not tried yet.
  std::optional<std::vector<std::unique_ptr<HeldDevice>>> held_;
};

}  // namespace ucudnn::tuning
