// What the library asks of the CUDA driver.
#pragma once

#include <cuda.h>

#include <vector>

#include "shim/host/nccl/outcome.h"

namespace hostgpu::nccl {

// The calling thread's device, as the runtime tells it: without a context the first one's is made
// current.
Outcome CurrentDevice(int* device);
// The device's primary context. Whoever is given it releases it with ReleaseContext.
Outcome RetainContext(int device, CUcontext* context);
void ReleaseContext(int device);

// Makes a context current, for the default streams' handles to mean its own.
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

// What is enqueued on `stream` next follows what was enqueued on the others; what is enqueued on
// the others after Part follows what was enqueued on `stream` in between. Captured like any event.
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
