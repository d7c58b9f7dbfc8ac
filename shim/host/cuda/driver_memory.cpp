// Driver functions that allocate device memory and page-locked memory, and that return attributes
// of pointers.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "shim/host/cuda/address.h"
#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"

using namespace hostgpu;

namespace {

constexpr size_t kPage = 4096;

// Returns body(context) unless a capture forbids it: allocating and freeing are "potentially
// unsafe".
template <class Body>
CUresult CallUnsafe(Body body) {
  return CallInContext([&](Context& context) -> CUresult {
    const CUresult refused = RefuseUnsafeCall();
    return refused == CUDA_SUCCESS ? body(context) : refused;
  });
}

CUresult AllocateDevice(Context& context, CUdeviceptr* out, size_t bytes) {
  if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  if (hostgpuFaultDue("alloc")) return CUDA_ERROR_OUT_OF_MEMORY;
  std::optional<uintptr_t> address = context.memory.Allocate(bytes);
  if (!address && context.MakeRoom()) address = context.memory.Allocate(bytes);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = *address;
  return CUDA_SUCCESS;
}

// Removes and returns the state's entry for the host memory of this kind that starts at `address`;
// none if there is no such entry.
std::optional<HostAllocation> Forget(void* address, HostAllocation::Kind kind) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  const auto found = state.host.find(reinterpret_cast<uintptr_t>(address));
  if (found == state.host.end() || found->second.kind != kind) return std::nullopt;
  const HostAllocation allocation = found->second;
  state.host.erase(found);
  return allocation;
}

// Writes one attribute of a pointer to `data`. `place` is empty for memory that CUDA does not know.
CUresult Attribute(void* data, CUpointer_attribute attribute, const Place& place,
                   CUdeviceptr address) {
  const bool host_visible = place.memory != Memory::kDevice;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = !place.context                    ? 0
                                      : place.memory == Memory::kPinned ? CU_MEMORYTYPE_HOST
                                                                        : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = place.context ? address : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *static_cast<void**>(data) =
          place.context && host_visible ? reinterpret_cast<void*>(address) : nullptr;
      return host_visible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = place.context ? place.context->device : CU_DEVICE_INVALID;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return CallInContext([&](Context& context) {
    if (free_bytes) *free_bytes = context.memory.free_bytes();
    if (total_bytes) *total_bytes = context.memory.total_bytes();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
  return CallUnsafe([&](Context& context) { return AllocateDevice(context, out, bytes); });
}

// Waits for the device before it frees memory, because work may still use the memory; the
// documentation allows this. For a pool's memory it does not wait, as documented.
CUresult cuMemFree(CUdeviceptr address) {
  return CallUnsafe([&](Context&) {
    if (address == 0) return CUDA_SUCCESS;
    const std::optional<Place> place = Locate(address);
    if (!place || place->memory != Memory::kDevice || place->allocation.start != address) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (place->context->pools.Free(address, {})) return CUDA_SUCCESS;
    place->context->Synchronize();
    return place->context->memory.Free(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  return CallUnsafe([&](Context& context) {
    if ((flags & ~7u) || !out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    void* const address = rounded < bytes ? nullptr : std::aligned_alloc(kPage, rounded);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    state.host[reinterpret_cast<uintptr_t>(address)] = {bytes, HostAllocation::Kind::kAllocated,
                                                        &context};
    *out = address;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFreeHost(void* address) {
  return CallUnsafe([&](Context&) {
    const auto allocation = Forget(address, HostAllocation::Kind::kAllocated);
    if (!allocation) return CUDA_ERROR_INVALID_VALUE;
    allocation->context->Synchronize();
    std::free(address);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostRegister(void* address, size_t bytes, unsigned) {
  return CallUnsafe([&](Context& context) {
    if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    const auto start = reinterpret_cast<uintptr_t>(address);
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    const auto next = state.host.upper_bound(start);
    const bool covers_next = next != state.host.end() && next->first - start < bytes;
    const bool in_previous = next != state.host.begin() &&
                             start - std::prev(next)->first < std::prev(next)->second.bytes;
    if (covers_next || in_previous) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    state.host[start] = {bytes, HostAllocation::Kind::kRegistered, &context};
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostUnregister(void* address) {
  return CallUnsafe([&](Context& context) {
    context.Synchronize();
    return Forget(address, HostAllocation::Kind::kRegistered)
               ? CUDA_SUCCESS
               : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* host, unsigned flags) {
  return CallInContext([&](Context&) {
    if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const std::optional<Place> place = Locate(reinterpret_cast<uintptr_t>(host));
    if (!place || !place->context || place->memory == Memory::kDevice) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *out = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  return CallInContext([&](Context&) {
    if (count == 0 || !attributes || !data) return CUDA_ERROR_INVALID_VALUE;
    const Place place = Locate(address).value_or(Place{});
    for (unsigned i = 0; i < count; ++i) {
      const CUresult result = Attribute(data[i], attributes[i], place, address);
      if (result == CUDA_ERROR_NOT_SUPPORTED) return result;
    }
    return CUDA_SUCCESS;
  });
}
