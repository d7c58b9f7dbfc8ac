// Functions of cuDNN for handles.
#include "shim/host/cudnn/handle.h"

#include <cuda.h>

#include <memory>

#include "shim/host/hostgpu.h"

namespace hostgpu {

bool BindContext() {
  int count = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0)
    return false;
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr) return true;
  return cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
         cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

namespace {

// Returns `work` in the form in which the driver runs and releases it.
hostgpuWork WorkOf(std::span<const void* const> uses, std::function<void()> work) {
  using Task = std::function<void()>;
  const auto run = [](void* argument) {
    try {
      (*static_cast<const Task*>(argument))();
    } catch (...) {
      ReportDeviceFault("an exception on the worker thread (out of host memory?)");
    }
  };
  const auto release = [](void* argument) { delete static_cast<Task*>(argument); };
  return {run, release, new Task(std::move(work)), uses.data(), uses.size()};
}

}  // namespace

Runs WhenRuns(cudnnHandle_t handle) {
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  // If the stream cannot be queried, enqueuing work on it will fail anyway.
  if (!BindContext() || cuStreamIsCapturing(handle->stream, &capturing) != CUDA_SUCCESS) {
    return Runs::kNow;
  }
  return capturing == CU_STREAM_CAPTURE_STATUS_NONE ? Runs::kNow : Runs::kAtReplay;
}

cudnnStatus_t Enqueue(cudnnHandle_t handle, std::span<const void* const> uses,
                      std::function<void()> work) {
  const hostgpuWork enqueued = WorkOf(uses, std::move(work));
  HOSTGPU_REFUSE_IF(!hostgpuEnqueue(handle->stream, &enqueued),
                    CUDNN_STATUS_EXECUTION_FAILED_CUDART);
  return CUDNN_STATUS_SUCCESS;
}

bool AddToGraph(cudaGraph_t graph, std::span<const void* const> uses, uint64_t kernel,
                std::function<void()> work) {
  const hostgpuWork added = WorkOf(uses, std::move(work));
  return hostgpuAddToGraph(graph, &added, kernel) != 0;
}

bool UpdateInGraph(cudaGraph_t graph, std::span<const void* const> uses, uint64_t kernel,
                   std::function<void()> work) {
  const hostgpuWork updated = WorkOf(uses, std::move(work));
  return hostgpuUpdateInGraph(graph, &updated, kernel) != 0;
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
  cuCtxSynchronize();  // the documentation says that cudnnDestroy synchronises the device
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

}  // extern "C"
