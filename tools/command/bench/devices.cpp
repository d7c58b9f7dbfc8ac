#include "command/bench/devices.h"

#include <utility>

#include "cuda/driver.h"
#include "cudnn/real_library.h"

namespace ucudnn::command {

Status BenchDevices::Open(const Options& options, const BenchmarkDevices& wanted,
                          std::vector<std::string>& refused) {
  const cuda::Driver* const driver = cuda::GetDriver();
  if (driver == nullptr) {
    return Status::Error(
        "there is no CUDA driver (libcuda.so.1); --host measures on the CPU stand-in");
  }
  const cudnn::RealLibrary& real = cudnn::OpenReal(options.real_cudnn.c_str(), nullptr);
  if (!real.library) return Status::Error("there is no real cuDNN; see `ucudnn doctor`");
  UCUDNN_RETURN_IF_ERROR(cudnn::LoadFunctions(
      [&](const char* name) { return real.library->Symbol(name); }, functions_));
  UCUDNN_ASSIGN_OR_RETURN(tuning::HeldDevices held,
                          tuning::HoldDevices(*driver, functions_, wanted));
  refused = std::move(held.refused);
  devices_ = std::move(held.devices);
  return Status::Ok();
}

}  // namespace ucudnn::command
