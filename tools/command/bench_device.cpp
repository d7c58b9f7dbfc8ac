#include "command/bench_device.h"

#include "cuda/driver.h"
#include "cudnn/genuine_library.h"

namespace ucudnn::command {

BenchDevice::~BenchDevice() {
  if (handle_ != nullptr) functions_.cudnnDestroy(handle_);
}

Status BenchDevice::Open(const Options& options) {
  device_.driver = cuda::GetDriver();
  if (device_.driver == nullptr) {
    return Status::Error(
        "there is no CUDA driver (libcuda.so.1); --host measures on the CPU stand-in");
  }
  const cudnn::GenuineLibrary& genuine = cudnn::OpenGenuine(options.real_cudnn.c_str(), nullptr);
  if (!genuine.library) return Status::Error("there is no genuine cuDNN; see `ucudnn doctor`");
  UCUDNN_RETURN_IF_ERROR(cudnn::LoadFunctions(
      [&](const char* name) { return genuine.library->Symbol(name); }, functions_));
  UCUDNN_RETURN_IF_ERROR(
      cudnn::CudnnStatus(functions_, functions_.cudnnCreate(&handle_), "creating a handle"));
  if (device_.driver->cuCtxGetCurrent(&device_.context) != CUDA_SUCCESS ||
      device_.context == nullptr) {
    return Status::Error("cuDNN made no context current");
  }
  device_.functions = &functions_;
  UCUDNN_ASSIGN_OR_RETURN(device_.platform, tuning::DescribePlatform(*device_.driver, functions_));
  return Status::Ok();
}

}  // namespace ucudnn::command
