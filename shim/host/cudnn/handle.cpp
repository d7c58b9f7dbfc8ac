// Handles, and the functions that describe the library.
#include "shim/host/cudnn/handle.h"

#include <cuda.h>

#include <memory>

#include "shim/host/cudnn/device_memory.h"
#include "shim/host/hostgpu.h"

namespace hostgpu {
namespace {

// As the CUDA runtime inside the genuine library: the current context, else device 0's primary one.
bool BindContext() {
  int count = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0)
    return false;
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr) return true;
  return cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
         cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

}  // namespace

cudnnStatus_t Enqueue(cudnnHandle_t handle, std::function<void()> work) {
  auto task = std::make_unique<std::function<void()>>(std::move(work));
  const auto run = [](void* argument) {
    std::unique_ptr<std::function<void()>> task(static_cast<std::function<void()>*>(argument));
    try {
      (*task)();
    } catch (...) {
      ReportDeviceFault("an exception on the worker thread (out of host memory?)");
    }
  };
  if (!hostgpuEnqueue(handle->stream, run, task.get())) {
    return Refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the handle's stream takes no work");
  }
  static_cast<void>(task.release());  // the worker owns it now
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace hostgpu

using namespace hostgpu;

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM);
  *handle = nullptr;
  HOSTGPU_REFUSE_IF(hostgpuFaultDue("handle"), CUDNN_STATUS_INTERNAL_ERROR);
  HOSTGPU_REFUSE_IF(!BindContext(), CUDNN_STATUS_NOT_INITIALIZED);
  *handle = new (std::nothrow) cudnnContext;
  HOSTGPU_REFUSE_IF(*handle == nullptr, CUDNN_STATUS_ALLOC_FAILED);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (handle == nullptr) return CUDNN_STATUS_SUCCESS;
  cuCtxSynchronize();  // documented: implies cudaDeviceSynchronize
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId) {
  HOSTGPU_REFUSE_IF(handle == nullptr, CUDNN_STATUS_BAD_PARAM);
  handle->stream = streamId;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* streamId) {
  HOSTGPU_REFUSE_IF(handle == nullptr || streamId == nullptr, CUDNN_STATUS_BAD_PARAM);
  *streamId = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnQueryRuntimeError(cudnnHandle_t handle, cudnnStatus_t* rstatus,
                                     cudnnErrQueryMode_t, cudnnRuntimeTag_t*) {
  HOSTGPU_REFUSE_IF(handle == nullptr || rstatus == nullptr, CUDNN_STATUS_BAD_PARAM);
  *rstatus = DeviceFaulted() ? CUDNN_STATUS_EXECUTION_FAILED_CUDART : CUDNN_STATUS_SUCCESS;
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
