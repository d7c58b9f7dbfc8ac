// The cuDNN handle: a device's stream to work on. Used by one thread at a time, as in the real
// library.
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

// Binds a context as the CUDA runtime inside the real library does: the current one, else device
// 0's primary one. Returns false if there is no device.
bool BindContext();

// Says when work that is enqueued now on the handle's stream will run.
Runs WhenRuns(cudnnHandle_t handle);

// Runs `work` on the handle's stream in stream order, or records it if the stream captures, and
// returns at once. `uses` are the device addresses that it uses; null ones are ignored.
cudnnStatus_t Enqueue(cudnnHandle_t handle, std::span<const void* const> uses,
                      std::function<void()> work);
inline cudnnStatus_t Enqueue(cudnnHandle_t handle, std::initializer_list<const void*> uses,
                             std::function<void()> work) {
  return Enqueue(handle, std::span(uses.begin(), uses.size()), std::move(work));
}

// Adds `work` as a node of `graph`, or makes its only node run it from now on, if that was made
// with the same `kernel`. Returns false for a null or another graph.
bool AddToGraph(cudaGraph_t graph, std::span<const void* const> uses, uint64_t kernel,
                std::function<void()> work);
bool UpdateInGraph(cudaGraph_t graph, std::span<const void* const> uses, uint64_t kernel,
                   std::function<void()> work);

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
