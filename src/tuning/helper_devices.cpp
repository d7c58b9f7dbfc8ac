#include "tuning/helper_devices.h"

#include "base/log.h"
#include "cuda/resources.h"

namespace ucudnn::tuning {

std::vector<std::shared_ptr<HeldDevice>> HelperDevices::Beside(const Device& device) {
  if (!wanted_.parallel()) return {};
  // A fork may have left the mutex locked forever in this child; such a child measures without
  // helpers.
  if (!mutex_.TryLock()) return {};
  const MutexLock lock(mutex_, MutexLock::kAdopt);
  if (!held_) {
    held_.emplace();
    const cuda::RelaxedCaptureScope relaxed(*device.driver);
    Result<HeldDevices> opened =
        HoldDevices(*device.driver, *device.functions, wanted_, &device.platform);
    if (!opened.ok()) {
      WarnOnce("benchmark devices", "no other device is measured on: " + opened.message());
      return {};
    }
    for (const std::string& why : opened->refused) WarnOnce(why, "measuring: " + why);
    for (auto& one : opened->devices) held_->push_back(std::move(one));
  }
  const Result<std::string> own = DeviceName(device);
  std::vector<std::shared_ptr<HeldDevice>> beside;
  for (const auto& other : *held_) {
    if (other->device().platform != device.platform) continue;
    const Result<std::string> name = DeviceName(other->device());
    if (own.ok() && name.ok() && *name != *own) beside.push_back(other);
  }
  return beside;
}

void HelperDevices::Release() {
  if (!mutex_.TryLock()) return;
  const MutexLock lock(mutex_, MutexLock::kAdopt);
  held_.reset();
}

}  // namespace ucudnn::tuning
