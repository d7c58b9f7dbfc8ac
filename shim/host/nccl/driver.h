// The library's calls of the CUDA driver.
#pragma once

#include <cuda.h>

#include <vector>

#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

// The calling thread's device, as the runtime tells it: if there is no context, the first device's
// is made current.
Outcome CurrentDevice(int* device);
// The device's primary context. The caller releases it with ReleaseContext.
Outcome RetainContext(int device, CUcontext* context);
void ReleaseContext(int device);

// Makes a context current, so that the handles of default streams mean this context's streams.
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

// Joins streams. After Join, later work on `stream` follows earlier work on the others; after Part,
// later work on the others follows the work on `stream` in between. A capture records the
// dependencies like any event.
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
