// Runtime functions for streams, events and host functions, implemented by the driver's functions.
#include "shim/host/cudart/runtime.h"

using namespace hostgpu::runtime;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return Bound(cuStreamCreate, stream, CU_STREAM_DEFAULT);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Bound(cuStreamCreate, stream, flags);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return Bound(cuStreamCreateWithPriority, stream, flags, priority);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return Bound(cuStreamDestroy, stream); }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return Bound(cuStreamGetPriority, stream, priority);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Bound(cuStreamSynchronize, stream);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return Bound(cuStreamQuery, stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return Bound(cuStreamWaitEvent, stream, event, flags);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return Bound(cuLaunchHostFunc, stream, function, argument);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return Bound(cuEventCreate, event, CU_EVENT_DEFAULT);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Bound(cuEventCreate, event, flags);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return Bound(cuEventDestroy, event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Bound(cuEventRecord, event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return Bound(cuEventQuery, event); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return Bound(cuEventSynchronize, event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Bound(cuEventElapsedTime, milliseconds, start, end);
}
