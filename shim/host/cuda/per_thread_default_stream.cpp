// The entry points that code built with --default-stream=per-thread calls: the null stream means
// the calling thread's own.
#include "shim/host/cuda/driver_api.h"

namespace {

CUstream Own(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// Earlier versions, which the header no longer declares.
#undef cuStreamGetCaptureInfo
CUresult cuStreamGetCaptureInfo(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id);
CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, size_t* count);

CUresult cuStreamSynchronize_ptsz(CUstream s) { return cuStreamSynchronize(Own(s)); }
CUresult cuStreamQuery_ptsz(CUstream s) { return cuStreamQuery(Own(s)); }
CUresult cuStreamGetCtx_ptsz(CUstream s, CUcontext* context) {
  return cuStreamGetCtx(Own(s), context);
}
CUresult cuStreamGetDevice_ptsz(CUstream s, CUdevice* device) {
  return cuStreamGetDevice(Own(s), device);
}
CUresult cuStreamGetFlags_ptsz(CUstream s, unsigned* flags) {
  return cuStreamGetFlags(Own(s), flags);
}
CUresult cuStreamGetPriority_ptsz(CUstream s, int* priority) {
  return cuStreamGetPriority(Own(s), priority);
}
CUresult cuStreamGetId_ptsz(CUstream s, unsigned long long* id) {
  return cuStreamGetId(Own(s), id);
}
CUresult cuStreamIsCapturing_ptsz(CUstream s, CUstreamCaptureStatus* status) {
  return cuStreamIsCapturing(Own(s), status);
}
CUresult cuStreamBeginCapture_v2_ptsz(CUstream s, CUstreamCaptureMode mode) {
  return cuStreamBeginCapture(Own(s), mode);
}
CUresult cuStreamEndCapture_ptsz(CUstream s, CUgraph* graph) {
  return cuStreamEndCapture(Own(s), graph);
}
CUresult cuStreamGetCaptureInfo_ptsz(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return cuStreamGetCaptureInfo(Own(s), status, id);
}
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id,
                                        CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  return cuStreamGetCaptureInfo_v2(Own(s), status, id, graph, nodes, count);
}
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id,
                                        CUgraph* graph, const CUgraphNode** nodes,
                                        const CUgraphEdgeData** edges, size_t* count) {
  return cuStreamGetCaptureInfo_v3(Own(s), status, id, graph, nodes, edges, count);
}
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return cuGraphInstantiateWithParams(exec, graph, parameters);
}
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream s) { return cuGraphLaunch(exec, Own(s)); }
CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream s) { return cuGraphUpload(exec, Own(s)); }
CUresult cuStreamWaitEvent_ptsz(CUstream s, CUevent event, unsigned flags) {
  return cuStreamWaitEvent(Own(s), event, flags);
}
CUresult cuEventRecord_ptsz(CUevent event, CUstream s) { return cuEventRecord(event, Own(s)); }
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream s, unsigned flags) {
  return cuEventRecordWithFlags(event, Own(s), flags);
}
CUresult cuLaunchHostFunc_ptsz(CUstream s, CUhostFn function, void* argument) {
  return cuLaunchHostFunc(Own(s), function, argument);
}
CUresult cuStreamAddCallback_ptsz(CUstream s, CUstreamCallback callback, void* argument,
                                  unsigned flags) {
  return cuStreamAddCallback(Own(s), callback, argument, flags);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr* out, size_t bytes, CUstream s) {
  return cuMemAllocAsync(out, bytes, Own(s));
}
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                      CUstream s) {
  return cuMemAllocFromPoolAsync(out, bytes, pool, Own(s));
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream s) {
  return cuMemFreeAsync(address, Own(s));
}
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return cuMemcpyAsync(to, from, bytes, Own(s));
}
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void* from, size_t bytes, CUstream s) {
  return cuMemcpyHtoDAsync(to, from, bytes, Own(s));
}
CUresult cuMemcpyDtoHAsync_v2_ptsz(void* to, CUdeviceptr from, size_t bytes, CUstream s) {
  return cuMemcpyDtoHAsync(to, from, bytes, Own(s));
}
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
  return cuMemcpyDtoDAsync(to, from, bytes, Own(s));
}
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* copy, CUstream s) {
  return cuMemcpy2DAsync(copy, Own(s));
}
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* copy, CUstream s) {
  return cuMemcpy3DAsync(copy, Own(s));
}
CUresult cuStreamWaitValue32_v2_ptsz(CUstream s, CUdeviceptr address, cuuint32_t value,
                                     unsigned flags) {
  return cuStreamWaitValue32(Own(s), address, value, flags);
}
CUresult cuStreamWriteValue32_v2_ptsz(CUstream s, CUdeviceptr address, cuuint32_t value,
                                      unsigned flags) {
  return cuStreamWriteValue32(Own(s), address, value, flags);
}
CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream s) {
  return cuMemsetD8Async(to, value, count, Own(s));
}
CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, size_t count, CUstream s) {
  return cuMemsetD32Async(to, value, count, Own(s));
}
CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                size_t height, CUstream s) {
  return cuMemsetD2D8Async(to, pitch, value, width, height, Own(s));
}

// The synchronous ones: enqueue on the thread's stream, then wait for it.
CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  const CUresult result = cuMemcpyAsync(to, from, bytes, CU_STREAM_PER_THREAD);
  return result == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : result;
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, size_t bytes) {
  const CUresult result = cuMemcpyHtoDAsync(to, from, bytes, CU_STREAM_PER_THREAD);
  return result == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : result;
}
CUresult cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) {
  const CUresult result = cuMemcpyDtoHAsync(to, from, bytes, CU_STREAM_PER_THREAD);
  return result == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : result;
}
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return cuMemcpyDtoDAsync(to, from, bytes, CU_STREAM_PER_THREAD);
}
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* copy) {
  const CUresult result = cuMemcpy3DAsync(copy, CU_STREAM_PER_THREAD);
  return result == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : result;
}
CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count) {
  return cuMemsetD8Async(to, value, count, CU_STREAM_PER_THREAD);
}
CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned value, size_t count) {
  return cuMemsetD32Async(to, value, count, CU_STREAM_PER_THREAD);
}

}  // extern "C"
#pragma GCC visibility pop
