// Stream-ordered allocation: memory pools, and allocating and freeing in stream order, which cannot
// be captured here.
#include <optional>
#include <vector>

#include "shim/host/cuda/address.h"
#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"

using hostgpu::Call;
using hostgpu::CallOnStream;
using hostgpu::Context;
using hostgpu::FindDevice;
using hostgpu::Locate;
using hostgpu::Memory;
using hostgpu::MemoryPool;
using hostgpu::Place;
using hostgpu::Stream;
using hostgpu::TheState;
using hostgpu::Ticket;

namespace {

MemoryPool* Pool(CUmemoryPool handle) { return reinterpret_cast<MemoryPool*>(handle); }
CUmemoryPool Handle(MemoryPool* pool) { return reinterpret_cast<CUmemoryPool>(pool); }

// Runs use(pool) on the live pool behind `handle`.
template <class Use>
CUresult CallWithPool(CUmemoryPool handle, Use use) {
  return Call([&]() -> CUresult {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    for (Context& context : TheState().contexts) {
      context.pools.With(Pool(handle), [&](MemoryPool& pool) { result = use(pool); });
    }
    return result;
  });
}

// What an attribute tells of: a flag, or bytes. Those with a `current` can only be reset to it
// (high watermarks), or not set at all (they are it).
struct Field {
  int MemoryPool::*flag = nullptr;
  uint64_t MemoryPool::*bytes = nullptr;
  uint64_t MemoryPool::*current = nullptr;
};

Field FieldOf(CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return {&MemoryPool::follow_event_dependencies};
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return {&MemoryPool::allow_opportunistic};
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return {&MemoryPool::allow_internal_dependencies};
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return {nullptr, &MemoryPool::release_threshold};
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return {nullptr, &MemoryPool::reserved, &MemoryPool::reserved};
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return {nullptr, &MemoryPool::reserved_high, &MemoryPool::reserved};
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return {nullptr, &MemoryPool::used, &MemoryPool::used};
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return {nullptr, &MemoryPool::used_high, &MemoryPool::used};
    default:
      return {};
  }
}

// Of the device `owner`'s memory, for work on `stream`, which may be another device's.
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

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream handle) {
  return CallOnStream(handle, [&](Context&, Stream& stream) -> CUresult {
    if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = RefuseIfCapturing(stream)) return refused;
    return Allocate(stream.context, stream.context.pools.Default(), stream, bytes, out);
  });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                 CUstream handle) {
  return CallOnStream(handle, [&](Context&, Stream& stream) -> CUresult {
    if (!out || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult refused = RefuseIfCapturing(stream)) return refused;
    for (Context& owner : TheState().contexts) {
      if (owner.pools.With(Pool(pool), [](MemoryPool&) {})) {
        return Allocate(owner, Pool(pool), stream, bytes, out);
      }
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

// What no pool gave is freed when the stream gets there.
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

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return Call([&] {
    const Context* context = FindDevice(device);
    if (!context) return CUDA_ERROR_INVALID_DEVICE;
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    *pool = Handle(context->pools.Default());
    return CUDA_SUCCESS;
  });
}

// Pools of device memory that stays in this process; there are no others here.
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
    *out = Handle(context->pools.Create(properties->maxSize));
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

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  return Call([&] {
    for (Context& context : TheState().contexts) {
      if (context.pools.Trim(Pool(pool), keep)) return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  return CallWithPool(handle, [&](MemoryPool& pool) {
    const Field field = FieldOf(attribute);
    if (field.flag) {
      pool.*field.flag = *static_cast<const int*>(value) != 0;
      return CUDA_SUCCESS;
    }
    const bool read_only = !field.bytes || field.bytes == field.current;
    const cuuint64_t bytes = read_only ? 0 : *static_cast<const cuuint64_t*>(value);
    if (read_only || (field.current && bytes != 0)) return CUDA_ERROR_INVALID_VALUE;
    pool.*field.bytes = field.current ? pool.*field.current : bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  return CallWithPool(handle, [&](const MemoryPool& pool) {
    const Field field = FieldOf(attribute);
    if (field.flag) {
      *static_cast<int*>(value) = pool.*field.flag;
    } else if (field.bytes) {
      *static_cast<cuuint64_t*>(value) = pool.*field.bytes;
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}
