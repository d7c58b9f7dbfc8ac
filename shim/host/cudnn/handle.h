// The cuDNN handle, which contains the stream for its work. Only one thread at a time may use a
// handle, as in the real library.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <new>
#include <span>
#include <utility>

#include "shim/host/cudnn/api.h"
#include "shim/host/cudnn/device_memory.h"
#include "shim/host/cudnn/refusal.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace hostgpu {

// Binds a context as the CUDA runtime in the real library does: keeps the current context, or else
// binds device 0's primary context. Returns false if there is no device.
bool BindContext();

// Returns kAtReplay if the handle's stream captures, else kNow.
Runs WhenRuns(cudnnHandle_t handle);

// Enqueues `work` on the handle's stream, or records it if the stream captures; does not wait for
// it. `uses` are the device addresses that the work uses; null addresses are ignored.
cudnnStatus_t Enqueue(cudnnHandle_t handle, std::span<const void* const> uses,
                      std::function<void()> work);
inline cudnnStatus_t Enqueue(cudnnHandle_t handle, std::initializer_list<const void*> uses,
                             std::function<void()> work) {
  return Enqueue(handle, std::span(uses.begin(), uses.size()), std::move(work));
}

// AddToGraph adds `work` to `graph` as a node. If `graph` has exactly one node, and it was added
// with the same `kernel`, UpdateInGraph replaces its work; otherwise UpdateInGraph returns false.
// Both return false if `graph` is null or unknown.
bool AddToGraph(cudaGraph_t graph, std::span<const void* const> uses, uint64_t kernel,
                std::function<void()> work);
bool UpdateInGraph(cudaGraph_t graph, std::span<const void* const> uses, uint64_t kernel,
                   std::function<void()> work);

// Returns body() for an entry point. Exceptions become status codes, because C callers cannot
// handle exceptions.
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
