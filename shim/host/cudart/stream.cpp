// Streams, events and host functions, implemented by the driver's.
#include "shim/host/cudart/runtime.h"

using namespace hostgpu::runtime;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return Bound([&] { return cuStreamCreate(stream, CU_STREAM_DEFAULT); });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return Bound([&] { return cuStreamCreate(stream, flags); });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return Bound([&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Bound([&] { return cuStreamDestroy(stream); });
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return Bound([&] { return cuStreamGetPriority(stream, priority); });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Bound([&] { return cuStreamSynchronize(stream); });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Bound([&] { return cuStreamQuery(stream); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return Bound([&] { return cuStreamWaitEvent(stream, event, flags); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return Bound([&] { return cuLaunchHostFunc(stream, function, argument); });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return Bound([&] { return cuEventCreate(event, CU_EVENT_DEFAULT); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Bound([&] { return cuEventCreate(event, flags); });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Bound([&] { return cuEventDestroy(event); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Bound([&] { return cuEventRecord(event, stream); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Bound([&] { return cuEventQuery(event); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Bound([&] { return cuEventSynchronize(event); });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Bound([&] { return cuEventElapsedTime(milliseconds, start, end); });
}
