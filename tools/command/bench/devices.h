// The devices on which `ucudnn bench` measures, and the real cuDNN for them. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cudnn/functions.h"
#include "options/options.h"
#include "tuning/held_device.h"

namespace ucudnn::command {

class BenchDevices {
 public:
  // Opens the devices of `wanted`, but only devices of one model. `refused` receives the reasons
  // why other devices are left out. Fails if there is no driver, no device or no real cuDNN.
  Status Open(const Options& options, const BenchmarkDevices& wanted,
              std::vector<std::string>& refused);

  // Returns the open devices, of which there is at least one.
  const std::vector<std::unique_ptr<tuning::HeldDevice>>& devices() const { return devices_; }
  tuning::HeldDevice& first() const { return *devices_.front(); }
  const cudnn::Functions& functions() const { return functions_; }

 private:
  cudnn::Functions functions_;
  std::vector<std::unique_ptr<tuning::HeldDevice>> devices_;
};

}  // namespace ucudnn::command
