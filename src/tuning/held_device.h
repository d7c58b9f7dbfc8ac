// Devices of this host on which ucudnn measures besides the caller's current device, or instead of
// it. Each device is used in its primary context. Thread-safe, except for HeldDevice::Handle. No
// function changes a thread's current context.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "options/options.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

// A device whose primary context is retained as long as this object exists. Destroying this object
// also destroys the context with all of ucudnn's objects in it, unless other code retains the
// context. Then spare handles stay in the context (spare_handles.h).
class HeldDevice {
 public:
  // Opens the device with the driver's ordinal `ordinal`. If `like` is not null, a device of
  // another model or driver is refused before it is touched. The caller owns `driver` and
  // `functions` and keeps them alive.
  static Result<std::unique_ptr<HeldDevice>> Open(const cuda::Driver& driver,
                                                  const cudnn::Functions& functions, int ordinal,
                                                  const planning::Platform* like = nullptr);
  ~HeldDevice();
  HeldDevice(const HeldDevice&) = delete;
  HeldDevice& operator=(const HeldDevice&) = delete;

  const Device& device() const { return device_; }
  int ordinal() const { return ordinal_; }
  // Returns ucudnn's handle on the device, the same one at each call. One thread at a time may use
  // it.
  Result<cudnnHandle_t> Handle();

 private:
  explicit HeldDevice(int ordinal) : ordinal_(ordinal) {}

  const int ordinal_;
  CUdevice number_ = 0;
  Device device_;
  cudnnHandle_t handle_ = nullptr;
};

struct HeldDevices {
  // All devices have one model and driver.
  std::vector<std::unique_ptr<HeldDevice>> devices;
  // One line for each device that is left out, with the reason.
  std::vector<std::string> refused;
};

// Opens the devices that `wanted` names, or all devices if wanted.all is set. If `wanted` is empty,
// opens the first device. Measurements of one device model do not hold for another. So a device is
// left out if its model or driver differs from `like`. If `like` is null, the first device takes
// the place of `like`. Fails if no device is left.
Result<HeldDevices> HoldDevices(const cuda::Driver& driver, const cudnn::Functions& functions,
                                const BenchmarkDevices& wanted,
                                const planning::Platform* like = nullptr);

}  // namespace ucudnn::tuning
