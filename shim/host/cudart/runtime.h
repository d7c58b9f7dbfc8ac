// The begin and the end of every runtime call: the primary context of the thread's device is bound,
// and a failure becomes the thread's last error.
#pragma once

#include "shim/host/cudart/runtime_api.h"

namespace hostgpu::runtime {

// Records `error` as the calling thread's last error unless it is success; returns it.
cudaError_t Recorded(cudaError_t error);
// Both APIs have the same error codes.
inline cudaError_t Recorded(CUresult error) { return Recorded(static_cast<cudaError_t>(error)); }

// Makes a context current as the runtime does: the present one, else the device's primary one.
CUresult Bind();
// Makes `device` the calling thread's device.
CUresult SelectDevice(int device);
int SelectedDevice();
// To be called after its primary context was reset: the next call binds it anew.
void ForgetContext(int device);

// Calls `function`, such as one of the driver's, with a context bound.
template <class Function, class... Arguments>
cudaError_t Bound(Function function, Arguments... arguments) {
  const CUresult bound = Bind();
  return Recorded(bound == CUDA_SUCCESS ? function(arguments...) : bound);
}

// Calls `function` after initialisation, without a context.
template <class Function, class... Arguments>
cudaError_t Initialised(Function function, Arguments... arguments) {
  const CUresult ready = cuInit(0);
  return Recorded(ready == CUDA_SUCCESS ? function(arguments...) : ready);
}

inline CUdeviceptr Device(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace hostgpu::runtime
