// Helpers with which the runtime's functions begin and end. Most functions bind a context (Bound);
// some only initialise the driver (Initialised). A failure becomes the thread's last error
// (Recorded).
#pragma once

#include "shim/host/cudart/runtime_api.h"

namespace hostgpu::runtime {

// Records `error` as the calling thread's last error unless it is success; returns `error`.
cudaError_t Recorded(cudaError_t error);
// The driver's error codes equal the runtime's.
inline cudaError_t Recorded(CUresult error) { return Recorded(static_cast<cudaError_t>(error)); }

// Makes a context current as the runtime does: keeps the current context, or else binds the primary
// context of the thread's device.
CUresult Bind();
// Makes `device` the calling thread's device.
CUresult SelectDevice(int device);
int SelectedDevice();
// Called after the device's primary context was reset; the next runtime call binds the context
// again.
void ForgetContext(int device);

// Returns function(arguments...) after a context is bound. `function` may be a function of the
// driver.
template <class Function, class... Arguments>
cudaError_t Bound(Function function, Arguments... arguments) {
  const CUresult bound = Bind();
  return Recorded(bound == CUDA_SUCCESS ? function(arguments...) : bound);
}

// Returns function(arguments...) after the driver is initialised; binds no context.
template <class Function, class... Arguments>
cudaError_t Initialised(Function function, Arguments... arguments) {
  const CUresult ready = cuInit(0);
  return Recorded(ready == CUDA_SUCCESS ? function(arguments...) : ready);
}

inline CUdeviceptr Device(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace hostgpu::runtime
