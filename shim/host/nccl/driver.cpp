#include "shim/host/nccl/driver.h"

#include <string>

namespace hostgpu::nccl {
namespace {

Outcome ToOutcome(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  return {ncclUnhandledCudaError,
          std::string("Cuda failure '") + (name ? name : "?") + "' of " + what};
}

}  // namespace

Outcome CurrentDevice(int* device) {
  if (const CUresult result = cuInit(0)) return ToOutcome(result, "cuInit");
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && !context) {
    if (Outcome o = RetainContext(0, &context); !o.ok()) return o;
    cuCtxSetCurrent(context);
  }
  return ToOutcome(cuCtxGetDevice(device), "cuCtxGetDevice");
}

Outcome RetainContext(int device, CUcontext* context) {
  if (const CUresult result = cuInit(0)) return ToOutcome(result, "cuInit");
  return ToOutcome(cuDevicePrimaryCtxRetain(context, device), "cuDevicePrimaryCtxRetain");
}

void ReleaseContext(int device) { cuDevicePrimaryCtxRelease(device); }

Outcome StreamKnot::Follow(CUstream later, CUstream earlier) {
  CUevent event = nullptr;
  CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) result = cuEventRecord(event, earlier);
  if (result == CUDA_SUCCESS) result = cuStreamWaitEvent(later, event, 0);
  if (event) cuEventDestroy(event);
  return ToOutcome(result, "ordering the streams of a group");
}

Outcome StreamKnot::Join() {
  for (const CUstream other : others_) {
    if (Outcome o = Follow(stream_, other); !o.ok()) return o;
  }
  return {};
}

Outcome StreamKnot::Part() {
  for (const CUstream other : others_) {
    if (Outcome o = Follow(other, stream_); !o.ok()) return o;
  }
  return {};
}

}  // namespace hostgpu::nccl
