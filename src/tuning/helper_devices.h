// The devices that a process measures on beside the one it runs on, where its user names some. They
// are opened when first needed, and held until Release. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/options.h"
#include "tuning/held_device.h"

namespace ucudnn::tuning {

class HelperDevices {
 public:
  explicit HelperDevices(BenchmarkDevices wanted) : wanted_(std::move(wanted)) {}
  HelperDevices(const HelperDevices&) = delete;
  HelperDevices& operator=(const HelperDevices&) = delete;

  // The devices that may measure for `device`: of its model and driver, but not itself. One warning
  // for each that is left out. The caller's pointers keep them open.
  std::vector<std::shared_ptr<HeldDevice>> Beside(const Device& device);
  // Lets the devices go, because nothing is left to be measured as far as anybody knows. A later
  // Beside opens them again.
  void Release();

 private:
  const BenchmarkDevices wanted_;
  Mutex mutex_;
  // The devices of the model that was asked about first. None: they were not tried yet.
  std::optional<std::vector<std::shared_ptr<HeldDevice>>> held_ UCUDNN_GUARDED_BY(mutex_);
};

}  // namespace ucudnn::tuning
