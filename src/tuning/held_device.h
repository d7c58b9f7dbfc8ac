// Devices of this host on which ucudnn measures besides the caller's current device, or instead of
// it. Each is used in its primary context. Thread-safe, except for HeldDevice::Handle. No thread's
// current context changes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "options/options.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

// A device whose primary context is retained as long as this object exists. If no other code
// retains the context, destroying this object also destroys the context with all of ucudnn's
// objects in it. Otherwise spare handles stay in the context (spare_handles.h).
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
  // Returns ucudnn's handle on the device, always the same one. One thread at a time may use it.
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
  // One line, with the reason, for each device that is left out.
  std::vector<std::string> refused;
};

// Opens the devices that `wanted` names, or all devices if wanted.all is set. If `wanted` is empty,
// opens the first device. Leaves out devices whose model or driver differs from `like` (if null,
// from the first device), because measurements of one model do not hold for another. Fails if no
// device is left.
Result<HeldDevices> HoldDevices(const cuda::Driver& driver, const cudnn::Functions& functions,
                                const BenchmarkDevices& wanted,
                                const planning::Platform* like = nullptr);

}  // namespace ucudnn::tuning
