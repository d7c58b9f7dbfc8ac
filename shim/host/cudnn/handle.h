// The cuDNN handle: a device's stream to work on. Used by one thread at a time, as in the genuine
// library.
#pragma once

#include <functional>
#include <new>

#include "shim/host/cudnn/api.h"
#include "shim/host/cudnn/refusal.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace hostgpu {

// Runs `work` on the handle's stream in stream order, and returns at once.
cudnnStatus_t Enqueue(cudnnHandle_t handle, std::function<void()> work);

// Runs an entry point's body; no exception may leave a C function.
template <class Body>
cudnnStatus_t Protect(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "out of host memory");
  } catch (...) {
    return Refuse(CUDNN_STATUS_INTERNAL_ERROR, "unexpected exception");
  }
}

}  // namespace hostgpu
