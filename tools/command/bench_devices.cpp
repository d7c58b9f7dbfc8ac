#include "command/bench_devices.h"

#include <numeric>
#include <string>

#include "cuda/driver.h"

namespace ucudnn::command {
namespace {

// Empty: the current one.
Result<std::vector<int>> Ordinals(const Options& options) {
  std::vector<int> ordinals = options.benchmark_devices;
  if (ordinals.empty() && !options.benchmark_all_devices) return ordinals;
  const cuda::Driver* const driver = cuda::GetDriver();
  if (driver == nullptr) return Status::Error("there is no CUDA driver (libcuda.so.1)");
  int count = 0;
  if (driver->cuInit(0) != CUDA_SUCCESS || driver->cuDeviceGetCount(&count) != CUDA_SUCCESS ||
      count < 1) {
    return Status::Error("the CUDA driver has no device");
  }
  if (options.benchmark_all_devices) {
    ordinals.resize(count);
    std::iota(ordinals.begin(), ordinals.end(), 0);
  }
  for (const int ordinal : ordinals) {
    if (ordinal >= count) {
      return Status::Error("UCUDNN_BENCHMARK_DEVICES: there is no device " +
                           std::to_string(ordinal) + ": the driver has " + std::to_string(count));
    }
  }
  return ordinals;
}

}  // namespace

Status SamePlatform(const planning::Platform& first, int first_ordinal,
                    const planning::Platform& other, int ordinal) {
  if (other == first) return Status::Ok();
  const auto words = [](const planning::Platform& platform) {
    return "'" + platform.device + "' with driver " + std::to_string(platform.driver) +
           " and cuDNN " + std::to_string(platform.cudnn);
  };
  return Status::Error("UCUDNN_BENCHMARK_DEVICES: device " + std::to_string(ordinal) + " is " +
                       words(other) + ", device " + std::to_string(first_ordinal) + " is " +
                       words(first) + ": what one measures does not hold for the other");
}

Result<BenchDevices> OpenBenchDevices(const Options& options) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<int> ordinals, Ordinals(options));
  BenchDevices devices;
  if (ordinals.empty()) {
    devices.push_back(std::make_unique<BenchDevice>());
    UCUDNN_RETURN_IF_ERROR(devices.back()->Open(options));
    return devices;
  }
  for (const int ordinal : ordinals) {
    devices.push_back(std::make_unique<BenchDevice>());
    UCUDNN_RETURN_IF_ERROR(devices.back()->Open(options, ordinal));
    UCUDNN_RETURN_IF_ERROR(SamePlatform(devices.front()->device().platform, ordinals.front(),
                                        devices.back()->device().platform, ordinal));
  }
  return devices;
}

}  // namespace ucudnn::command
