#include "command/bench_device.h"

#include <utility>

#include "cuda/driver.h"
#include "cudnn/genuine_library.h"

namespace ucudnn::command {

Status BenchDevices::Open(const Options& options, const BenchmarkDevices& wanted,
                          std::vector<std::string>& refused) {
  const cuda::Driver* const driver = cuda::GetDriver();
  if (driver == nullptr) {
    return Status::Error(
        "there is no CUDA driver (libcuda.so.1); --host measures on the CPU stand-in");
  }
  const cudnn::GenuineLibrary& genuine = cudnn::OpenGenuine(options.real_cudnn.c_str(), nullptr);
  if (!genuine.library) return Status::Error("there is no genuine cuDNN; see `ucudnn doctor`");
  UCUDNN_RETURN_IF_ERROR(cudnn::LoadFunctions(
      [&](const char* name) { return genuine.library->Symbol(name); }, functions_));
  UCUDNN_ASSIGN_OR_RETURN(tuning::HeldDevices held,
                          tuning::HoldDevices(*driver, functions_, wanted));
  refused = std::move(held.refused);
  devices_ = std::move(held.devices);
  return Status::Ok();
}

}  // namespace ucudnn::command
