// Driver functions for memory pools and for allocating and freeing in stream order. Allocating and
// freeing are refused while the stream captures.
#include <optional>
#include <vector>

#include "shim/host/cuda/address.h"
#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"

using namespace hostgpu;

namespace {

MemoryPool* Pool(CUmemoryPool handle) { return reinterpret_cast<MemoryPool*>(handle); }

// Allocates memory of the device `owner` for work on `stream`, which may belong to another device.
CUresult Allocate(Context& owner, MemoryPool* pool, Stream& stream, size_t bytes,
                  CUdeviceptr* out) {
  *out = 0;
  if (hostgpuFaultDue("alloc")) return CUDA_ERROR_OUT_OF_MEMORY;
  std::vector<Ticket> after;
  std::optional<uintptr_t> address = owner.pools.Allocate(pool, bytes, stream, &after);
  if (!address && owner.MakeRoom()) address = owner.pools.Allocate(pool, bytes, stream, &after);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!after.empty())
    stream.context.Enqueue(
        stream, [] {}, std::move(after));
  *out = *address;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                 CUstream handle) {
  return CallOnStream(handle, [&](Context&, Stream& stream) -> CUresult {
    if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = RefuseIfCapturing(stream)) return refused;
    for (Context& owner : TheState().contexts) {
      if (owner.pools.Has(Pool(pool))) return Allocate(owner, Pool(pool), stream, bytes, out);
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

// Memory of a pool returns to its pool. Other memory is freed when the stream reaches this call.
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return CallOnStream(handle, [&](Context&, Stream& stream) -> CUresult {
    if (address == 0) return CUDA_SUCCESS;
    if (const CUresult refused = RefuseIfCapturing(stream)) return refused;
    const std::optional<Place> place = Locate(address);
    if (!place || place->memory != Memory::kDevice || place->allocation.start != address) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Context* owner = place->context;
    if (owner->pools.Allocated(address)) {
      const Ticket reached = stream.context.Enqueue(stream, [] {});
      return owner->pools.Free(address, reached) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    ++owner->pending_frees;
    stream.context.Enqueue(stream, [owner, address] {
      owner->memory.Free(address);
      --owner->pending_frees;
    });
    return CUDA_SUCCESS;
  });
}

// Creates a pool of device memory that cannot be shared with other processes; other kinds of pools
// are not supported.
CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  return Call([&]() -> CUresult {
    if (!out || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    Context* context = FindDevice(properties->location.id);
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (hostgpuFaultDue("pool")) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = reinterpret_cast<CUmemoryPool>(context->pools.Create(properties->maxSize));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return Call([&] {
    for (Context& context : TheState().contexts) {
      if (context.pools.Destroy(Pool(pool))) return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}
