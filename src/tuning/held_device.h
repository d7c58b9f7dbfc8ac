// Devices of this host that are measured on beside the caller's current one, or in its place, each
// by its primary context. Thread-safe. No thread's current context changes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "tuning/measure.h"

namespace ucudnn::tuning {

// A device whose primary context is retained as long as this object lives. Then the context is gone
// with all that is ours on it, unless others retain it, too; in that case spare handles stay in it
// (spare_handles.h).
class HeldDevice {
 public:
  // `ordinal` is the driver's number of the device. `like` (null: any) demands a model and driver;
  // other devices are refused before they are touched. The caller owns both tables and keeps them
  // alive.
  static Result<std::unique_ptr<HeldDevice>> Open(const cuda::Driver& driver,
                                                  const cudnn::Functions& functions, int ordinal,
                                                  const planning::Platform* like = nullptr);
  ~HeldDevice();
  HeldDevice(const HeldDevice&) = delete;
  HeldDevice& operator=(const HeldDevice&) = delete;

  const Device& device() const { return device_; }
  int ordinal() const { return ordinal_; }
  // A handle of ours on the device, always the same. For one thread at a time.
  Result<cudnnHandle_t> Handle();

 private:
  explicit HeldDevice(int ordinal) : ordinal_(ordinal) {}

  const int ordinal_;
  CUdevice number_ = 0;
  Device device_;
  cudnnHandle_t handle_ = nullptr;
};

struct HeldDevices {
  // All are of one model and driver.
  std::vector<std::unique_ptr<HeldDevice>> devices;
  // One line for each device that is left out: which, and why.
  std::vector<std::string> refused;
};

// Opens the devices that `wanted` names, or all, or the first where it names none. Devices that are
// not of the model and driver of `like` (null: of the first one) are left out, because measurements
// of one model do not hold for another. An error where no device is left.
Result<HeldDevices> HoldDevices(const cuda::Driver& driver, const cudnn::Functions& functions,
                                const BenchmarkDevices& wanted,
                                const planning::Platform* like = nullptr);

}  // namespace ucudnn::tuning
