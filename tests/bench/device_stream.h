// Makes streams for benches whose cuDNN does nothing. The streams use the machine's CUDA driver if
// there is one, otherwise the CPU stand-in of this build.
#pragma once

#include <string>

#include "base/shared_library.h"
#include "cuda/driver.h"
#include "tests/bench/beside.h"

namespace ucudnn::bench {

// Returns a new stream of the first device, or the driver's error. The device's context becomes
// current.
inline Result<CUstream> NewDeviceStream() {
  if (!SharedLibrary::Open("libcuda.so.1").ok()) {
    const std::string stand_in = Beside("../../lib/ucudnn/host/libcuda.so.1");
    UCUDNN_RETURN_IF_ERROR(SharedLibrary::Open(stand_in).status());
  }
  const cuda::Driver* const driver = cuda::GetDriver();
  if (driver == nullptr) return Status::Error("the CUDA driver is of no use");
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUresult result = driver->cuInit(0);
  if (result == CUDA_SUCCESS) result = driver->cuDeviceGet(&device, 0);
  if (result == CUDA_SUCCESS) result = driver->cuDevicePrimaryCtxRetain(&context, device);
  if (result == CUDA_SUCCESS) result = driver->cuCtxPushCurrent(context);
  if (result == CUDA_SUCCESS) result = driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (result == CUDA_SUCCESS) return stream;
  return Status::Error("the CUDA driver gives no stream: error " + std::to_string(result));
}

}  // namespace ucudnn::bench
