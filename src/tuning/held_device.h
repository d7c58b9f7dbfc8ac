// Devices of this host that measure beside the caller's current one, or in its place, each by its
// primary context. Thread-safe. No thread's current context changes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "options/options.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

// A device whose primary context is retained as long as this object lives. Releasing the last
// reference destroys the context with all of ucudnn's objects in it; if other code retains it too,
// spare handles stay in it (spare_handles.h).
class HeldDevice {
 public:
  // Opens the device with the driver's number `ordinal`. `like` (null: any) demands a model and
  // driver; other devices are refused before they are touched. The caller owns both tables and
  // keeps them alive.
  static Result<std::unique_ptr<HeldDevice>> Open(const cuda::Driver& driver,
                                                  const cudnn::Functions& functions, int ordinal,
                                                  const planning::Platform* like = nullptr);
  ~HeldDevice();
  HeldDevice(const HeldDevice&) = delete;
  HeldDevice& operator=(const HeldDevice&) = delete;

  const Device& device() const { return device_; }
  int ordinal() const { return ordinal_; }
  // Returns a handle of ucudnn on the device, always the same one. Only one thread may use it at a
  // time.
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

// Opens the devices that `wanted` names, or all, or the first one if it names none. Leaves out
// devices that do not have the model and driver of `like` (null: of the first one), because
// measurements of one model do not hold for another. Fails if no device is left.
Result<HeldDevices> HoldDevices(const cuda::Driver& driver, const cudnn::Functions& functions,
                                const BenchmarkDevices& wanted,
                                const planning::Platform* like = nullptr);

}  // namespace ucudnn::tuning
