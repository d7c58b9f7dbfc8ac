// The entry points that code built with --default-stream=per-thread calls: the null stream means
// the calling thread's own.
#include "shim/host/cudart/runtime.h"

using namespace hostgpu::runtime;

#pragma GCC visibility push(default)
extern "C" {

cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t s, int* priority) {
  return cudaStreamGetPriority(Own(s), priority);
}
cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t s, unsigned* flags) {
  return cudaStreamGetFlags(Own(s), flags);
}
cudaError_t cudaStreamGetId_ptsz(cudaStream_t s, unsigned long long* id) {
  return cudaStreamGetId(Own(s), id);
}
cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t s, int* device) {
  return cudaStreamGetDevice(Own(s), device);
}
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t s) { return cudaStreamSynchronize(Own(s)); }
cudaError_t cudaStreamQuery_ptsz(cudaStream_t s) { return cudaStreamQuery(Own(s)); }
cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t s, cudaEvent_t event, unsigned flags) {
  return cudaStreamWaitEvent(Own(s), event, flags);
}
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t s, cudaHostFn_t function, void* argument) {
  return cudaLaunchHostFunc(Own(s), function, argument);
}
cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t s, cudaStreamCallback_t callback,
                                       void* argument, unsigned flags) {
  return cudaStreamAddCallback(Own(s), callback, argument, flags);
}
cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t s, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCapture(Own(s), mode);
}
cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t s, cudaGraph_t* graph) {
  return cudaStreamEndCapture(Own(s), graph);
}
cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t s, cudaStreamCaptureStatus* status) {
  return cudaStreamIsCapturing(Own(s), status);
}
cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t s, cudaStreamCaptureStatus* status,
                                          unsigned long long* id, cudaGraph_t* graph,
                                          const cudaGraphNode_t** nodes,
                                          const cudaGraphEdgeData** edges, size_t* count) {
  return cudaStreamGetCaptureInfo(Own(s), status, id, graph, nodes, edges, count);
}
cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                cudaGraphInstantiateParams* parameters) {
  return cudaGraphInstantiateWithParams(exec, graph, parameters);
}
cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t s) {
  return cudaGraphLaunch(exec, Own(s));
}
cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec, cudaStream_t s) {
  return cudaGraphUpload(exec, Own(s));
}
cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t s) {
  return cudaEventRecord(event, Own(s));
}
cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t s, unsigned flags) {
  return cudaEventRecordWithFlags(event, Own(s), flags);
}
cudaError_t cudaMallocAsync_ptsz(void** pointer, size_t bytes, cudaStream_t s) {
  return cudaMallocAsync(pointer, bytes, Own(s));
}
cudaError_t cudaMallocFromPoolAsync_ptsz(void** pointer, size_t bytes, cudaMemPool_t pool,
                                         cudaStream_t s) {
  return cudaMallocFromPoolAsync(pointer, bytes, pool, Own(s));
}
cudaError_t cudaFreeAsync_ptsz(void* pointer, cudaStream_t s) {
  return cudaFreeAsync(pointer, Own(s));
}
cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                 cudaStream_t s) {
  return cudaMemcpyAsync(to, from, bytes, kind, Own(s));
}
cudaError_t cudaMemcpy2DAsync_ptsz(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                   size_t width, size_t height, cudaMemcpyKind kind,
                                   cudaStream_t s) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, Own(s));
}
cudaError_t cudaMemsetAsync_ptsz(void* to, int value, size_t bytes, cudaStream_t s) {
  return cudaMemsetAsync(to, value, bytes, Own(s));
}
cudaError_t cudaMemset2DAsync_ptsz(void* to, size_t pitch, int value, size_t width, size_t height,
                                   cudaStream_t s) {
  return cudaMemset2DAsync(to, pitch, value, width, height, Own(s));
}
cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread);
  return error == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : error;
}
cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, cudaStreamPerThread);
}

}  // extern "C"
#pragma GCC visibility pop
