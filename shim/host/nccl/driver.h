// Helpers for calls of the CUDA driver: the thread's device, contexts, and the order of streams.
#pragma once

#include <cuda.h>

#include <vector>

#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

// Sets `device` to the calling thread's device. If the thread has no current context, makes the
// primary context of device 0 current, as the runtime does.
Outcome CurrentDevice(int* device);
// Retains the device's primary context. The caller releases it by ReleaseContext.
Outcome RetainContext(int device, CUcontext* context);
void ReleaseContext(int device);

// Makes a context current, so that handles of default streams refer to this context's streams.
class ContextScope {
 public:
  explicit ContextScope(CUcontext context) { entered_ = cuCtxPushCurrent(context) == CUDA_SUCCESS; }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope() {
    CUcontext left;
    if (entered_) cuCtxPopCurrent(&left);
  }
  bool entered() const { return entered_; }

 private:
  bool entered_;
};

// Joins streams. After Join, later work on `stream` waits for earlier work on `others`. After Part,
// later work on `others` waits for earlier work on `stream`. If the streams capture, the
// dependencies are recorded in the graph.
class StreamKnot {
 public:
  StreamKnot(CUstream stream, std::vector<CUstream> others)
      : stream_(stream), others_(std::move(others)) {}
  Outcome Join();
  Outcome Part();

 private:
  Outcome Follow(CUstream later, CUstream earlier);
  const CUstream stream_;
  const std::vector<CUstream> others_;
};

}  // namespace hostgpu::nccl
