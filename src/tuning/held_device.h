// Devices of this host that are measured on beside or in place of the caller's current one, each by
// its primary context. Thread-safe: no thread's current context is changed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

// A device whose primary context is held as long as this lives. The context is gone then, with all
// of ours on it, unless others hold it, too: in theirs, spare handles stay (spare_handles.h).
class HeldDevice {
 public:
  // `ordinal`: the driver's number of it. One that is not of the model and driver of `like` is
  // refused before it is touched; null: any. Both tables outlive the object.
  static Result<std::unique_ptr<HeldDevice>> Open(const cuda::Driver& driver,
                                                  const cudnn::Functions& functions, int ordinal,
                                                  const planning::Platform* like = nullptr);
  ~HeldDevice();
  HeldDevice(const HeldDevice&) = delete;
  HeldDevice& operator=(const HeldDevice&) = delete;

  const Device& device() const { return device_; }
  int ordinal() const { return ordinal_; }
  // A handle of ours on the device, the same every time; for one thread at a time.
  Result<cudnnHandle_t> Handle();

 private:
  explicit HeldDevice(int ordinal) : ordinal_(ordinal) {}

  const int ordinal_;
  CUdevice number_ = 0;
  Device device_;
  cudnnHandle_t handle_ = nullptr;
};

struct HeldDevices {
  // All of one model and driver.
  std::vector<std::unique_ptr<HeldDevice>> devices;
  // For each device that is left out: which, and why.
  std::vector<std::string> refused;
};

// The devices that `wanted` names, or all; where it names none, the first. Measurements of unlike
// devices are not each other's: those are left out that are not of the model and driver of `like`;
// where that is null, of the first one's. An error where no device is left.
Result<HeldDevices> HoldDevices(const cuda::Driver& driver, const cudnn::Functions& functions,
                                const BenchmarkDevices& wanted,
                                const planning::Platform* like = nullptr);

}  // namespace ucudnn::tuning
