#include "command/multigrid/device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "base/shared_library.h"
#include "command/installation.h"
#include "command/multigrid/solve_spec.h"
#include "cuda/driver.h"
#include "cudnn/real_library.h"
#include "options/options.h"

namespace ucudnn::command {
namespace {

// Returns the devices that this process opens for its ranks. If this machine has fewer devices than
// ranks, ranks share devices.
BenchmarkDevices DevicesOf(const MultigridRanks& ranks) {
  const cuda::Driver* const driver = cuda::GetDriver();
  int count = 0;
  if (driver == nullptr || driver->cuInit(0) != CUDA_SUCCESS ||
      driver->cuDeviceGetCount(&count) != CUDA_SUCCESS || count < 1) {
    return BenchmarkDevices();  // the code that opens devices reports the reason
  }
  BenchmarkDevices wanted;
  if (ranks.are_processes()) {
    wanted.ordinals = {ranks.local_rank() % count};
  } else {
    for (int rank = 0; rank < std::min(ranks.all(), count); ++rank) {
      wanted.ordinals.push_back(rank);
    }
  }
  return wanted;
}

}  // namespace

// Sets functions_. If this process has loaded ucudnn, cuDNN's functions come from ucudnn, and those
// that ucudnn lacks from the real library. Otherwise all come from the real library.
Status MultigridDevice::FindFunctions() {
  const Result<SharedLibrary> ours = SharedLibrary::Loaded("libucudnn.so.1");
  goes_through_ucudnn_ = ours.ok();
  if (!ours.ok()) {
    functions_ = devices_.functions();
    return Status::Ok();
  }
  const cudnn::RealLibrary& real = cudnn::OpenReal(ProcessOptions().real_cudnn.c_str(), nullptr);
  return cudnn::LoadFunctions(
      [&](const char* name) {
        void* const symbol = ours->Symbol(name);
        return symbol != nullptr ? symbol : real.library->Symbol(name);
      },
      functions_);
}

Result<std::shared_ptr<MultigridDevice>> MultigridDevice::Open(const SolveSpec& spec,
                                                               const MultigridRanks& ranks) {
  multigrid::DeviceSetting setting = spec.device;
  if (spec.network().notes_timeline) {
    UCUDNN_RETURN_IF_ERROR(multigrid::CheckTimeline(setting.way, setting.launch));
  }
  auto device = std::make_shared<MultigridDevice>();
  device->precision_ = spec.precision;
  device->is_stand_in_ = spec.host;
  if (spec.host) UCUDNN_RETURN_IF_ERROR(UseStandIns());
  std::vector<std::string> refused;
  if (Status opened = device->devices_.Open(ProcessOptions(), DevicesOf(ranks), refused);
      !opened.ok()) {
    return Status::Error("--backend cudnn: " + opened.message());
  }
  UCUDNN_RETURN_IF_ERROR(device->FindFunctions());
  const SpatialOptions& job = ProcessOptions().spatial;
  setting.transport.wanted = job.transport;
  setting.transport.timeout = std::chrono::milliseconds(std::lround(job.timeout_seconds * 1e3));
  setting.transport.cudnn_file =
      FileOf(reinterpret_cast<const void*>(device->devices_.functions().cudnnCreate));
  device->first_rank_ = ranks.first_here();
  for (int i = 0; i < ranks.here(); ++i) {
    const auto& held = device->devices_.devices();
    const multigrid::DeviceTarget target = {cuda::GetDriver(), &device->functions_,
                                            held[i % held.size()]->device().context,
                                            spec.precision};
    device->solvers_.push_back(std::make_unique<multigrid::DeviceSolvers>(target, setting));
  }
  return device;
}

std::string MultigridDevice::DeviceText() const {
  return std::string(precision_->text) + " on " +
         (is_stand_in_ ? std::string("the CPU stand-in")
                       : devices_.first().device().platform.device) +
         (goes_through_ucudnn_ ? " through ucudnn" : "");
}

std::string MultigridDevice::Text(const MultigridRanks& ranks) const {
  const std::string& transport = solvers_.front()->transport();
  const multigrid::DeviceSolvers::Choice& chosen = solvers_.front()->chosen();
  std::string text = DeviceText();
  if (ranks.all() > 1) text += ", " + ranks.Text();
  if (chosen.levels > 1) text += std::string(", blocks run: ") + NameOf(chosen.way);
  if (chosen.launch == multigrid::Launch::kGraph) text += ", cycles as graphs";
  return text + (transport.empty() ? "" : ", states go by " + transport);
}

}  // namespace ucudnn::command
