#include "tuning/held_device.h"

#include <numeric>
#include <utility>

#include "cuda/resources.h"
#include "tuning/spare_handles.h"

namespace ucudnn::tuning {
namespace {

std::string PlatformText(const planning::Platform& platform) {
  return "'" + platform.device + "' with driver " + std::to_string(platform.driver);
}

}  // namespace

Result<std::unique_ptr<HeldDevice>> HeldDevice::Open(const cuda::Driver& driver,
                                                     const cudnn::Functions& functions, int ordinal,
                                                     const planning::Platform* like) {
  std::unique_ptr<HeldDevice> held(new HeldDevice(ordinal));
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(driver, driver.cuDeviceGet(&held->number_, ordinal),
                                            "finding the device"));
  UCUDNN_ASSIGN_OR_RETURN(held->device_.platform,
                          DescribePlatform(driver, functions, held->number_));
  if (like != nullptr && held->device_.platform != *like) {
    return Status::Error("it is " + PlatformText(held->device_.platform) + ", not " +
                         PlatformText(*like));
  }
  CUcontext context = nullptr;
  UCUDNN_RETURN_IF_ERROR(
      cuda::DriverStatus(driver, driver.cuDevicePrimaryCtxRetain(&context, held->number_),
                         "holding its primary context"));
  held->device_.driver = &driver;
  held->device_.functions = &functions;
  held->device_.context = context;
  return held;
}

Result<cudnnHandle_t> HeldDevice::Handle() {
  if (handle_ == nullptr) {
    const cuda::ContextScope scope(*device_.driver, device_.context);
    UCUDNN_ASSIGN_OR_RETURN(handle_, TakeHandle(*device_.driver, *device_.functions));
  }
  return handle_;
}

HeldDevice::~HeldDevice() {
  if (device_.context == nullptr) return;
  {
    const cuda::ContextScope scope(*device_.driver, device_.context);
    if (handle_ != nullptr) KeepHandle(*device_.driver, *device_.functions, handle_);
  }
  const cuda::RelaxedCaptureScope relaxed(*device_.driver);
  device_.driver->cuDevicePrimaryCtxRelease(number_);
}

Result<HeldDevices> HoldDevices(const cuda::Driver& driver, const cudnn::Functions& functions,
                                const BenchmarkDevices& wanted, const planning::Platform* like) {
  UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(driver, driver.cuInit(0), "asking for devices"));
  int count = 0;
  UCUDNN_RETURN_IF_ERROR(
      cuda::DriverStatus(driver, driver.cuDeviceGetCount(&count), "counting devices"));
  if (count < 1) return Status::Error("there is no device");
  std::vector<int> ordinals = wanted.ordinals;
  if (ordinals.empty()) {
    ordinals.resize(wanted.all ? static_cast<size_t>(count) : 1);
    std::iota(ordinals.begin(), ordinals.end(), 0);
  }
  HeldDevices held;
  const auto refuse = [&](int ordinal, const std::string& why) {
    held.refused.push_back("device " + std::to_string(ordinal) + " is left out: " + why);
  };
  for (const int ordinal : ordinals) {
    if (ordinal >= count) {
      refuse(ordinal, count == 1 ? "there is one device, 0"
                                 : "there are devices 0 to " + std::to_string(count - 1));
      continue;
    }
    if (like == nullptr && !held.devices.empty()) like = &held.devices.front()->device().platform;
    Result<std::unique_ptr<HeldDevice>> opened = HeldDevice::Open(driver, functions, ordinal, like);
    if (!opened.ok()) {
      refuse(ordinal, opened.message());
      continue;
    }
    held.devices.push_back(std::move(*opened));
  }
  if (!held.devices.empty()) return held;
  std::string why;
  for (const std::string& refused : held.refused) why += (why.empty() ? "" : "; ") + refused;
  return Status::Error(why);
}

}  // namespace ucudnn::tuning
