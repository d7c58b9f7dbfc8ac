// Devices, primary contexts and the current context of a thread.
#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "shim/host/cuda/context.h"

using hostgpu::Call;
using hostgpu::CallInContext;
using hostgpu::Context;
using hostgpu::FindContext;
using hostgpu::FindDevice;
using hostgpu::TheState;

namespace {

constexpr int kVersion = 13000;
constexpr char kName[] = "Host stand-in (CPU times)";
constexpr int kGreatestPriority = -5;

int Attribute(CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 8;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return std::max(1u, std::thread::hardware_concurrency());
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 163 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 164 << 10;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return 1 << 10;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 64 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1000000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 1000000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 64;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 32 << 20;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 2;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
      return 1;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
      return 1;
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
      return 1;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      return 1;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
      return 1;
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
      return 1;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
      return 1;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
      return 1;
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
      return 1;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return device + 1;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
      return CU_COMPUTEMODE_DEFAULT;
    default:
      return 0;
  }
}

void FillUuid(CUuuid* uuid, CUdevice device) {
  std::memcpy(uuid->bytes, "hostgpu-standin", 15);
  uuid->bytes[15] = static_cast<char>(device);
}

}  // namespace

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (hostgpu::InHostFunction()) return CUDA_ERROR_NOT_PERMITTED;
  return hostgpu::Initialize();
}

CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = kVersion;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  return Call([&] {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(TheState().contexts.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return Call([&] {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (!FindDevice(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return Call([&] {
    if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!FindDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
    const size_t copied = std::min(sizeof kName - 1, static_cast<size_t>(length - 1));
    std::memcpy(name, kName, copied);
    name[copied] = '\0';
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return Call([&] {
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    if (!FindDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
    FillUuid(uuid, device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  return Call([&] {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    const Context* context = FindDevice(device);
    if (!context) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = context->memory.total_bytes();
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return Call([&] {
    if (!value || attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (!FindDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
    *value = Attribute(attribute, device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  return Call([&] {
    if (!id || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (!FindDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(id, length, "0000:%02X:00.0", static_cast<unsigned>(device + 1));
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return Call([&] {
    if (!can) return CUDA_ERROR_INVALID_VALUE;
    if (!FindDevice(device) || !FindDevice(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return Call([&] {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    Context* primary = FindDevice(device);
    if (!primary) return CUDA_ERROR_INVALID_DEVICE;
    ++primary->references;
    *context = primary->Handle();
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return Call([&] {
    Context* primary = FindDevice(device);
    if (!primary) return CUDA_ERROR_INVALID_DEVICE;
    int references = primary->references;
    do {
      if (references == 0) return CUDA_ERROR_INVALID_CONTEXT;
    } while (!primary->references.compare_exchange_weak(references, references - 1));
    if (references == 1) primary->Reset();
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return Call([&] {
    Context* primary = FindDevice(device);
    if (!primary) return CUDA_ERROR_INVALID_DEVICE;
    primary->Reset();
    primary->references = 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return Call([&] {
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    const Context* primary = FindDevice(device);
    if (!primary) return CUDA_ERROR_INVALID_DEVICE;
    *flags = primary->flags;
    *active = primary->references > 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return Call([&] {
    Context* primary = FindDevice(device);
    if (!primary) return CUDA_ERROR_INVALID_DEVICE;
    primary->flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  return Call([&] {
    Context* context = handle ? FindContext(handle) : nullptr;
    if (handle && !context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context && context->references == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    hostgpu::SetCurrentContext(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
  return Call([&] {
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    Context* context = hostgpu::CurrentContext();
    *handle = context ? context->Handle() : nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent(CUcontext handle) {
  return Call([&] {
    Context* context = FindContext(handle);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->references == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return hostgpu::PushContext(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

CUresult cuCtxPopCurrent(CUcontext* handle) {
  return Call([&] {
    Context* context = hostgpu::PopContext();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (handle) *handle = context->Handle();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return CallInContext([&](Context& context) {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = context.device;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetFlags(unsigned* flags) {
  return CallInContext([&](Context& context) {
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = context.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
  return Call([&] {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    if (handle ? !FindContext(handle) : !hostgpu::CurrentContext()) {
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    *version = 3020;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return CallInContext([](Context& context) {
    context.Synchronize();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return CallInContext([&](Context&) {
    if (least) *least = 0;
    if (greatest) *greatest = kGreatestPriority;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return CallInContext([&](Context& context) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const Context* other = FindContext(peer);
    if (!other) return CUDA_ERROR_INVALID_CONTEXT;
    if (other == &context) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(TheState().mutex);
    return TheState().peers.emplace(context.device, other->device).second
               ? CUDA_SUCCESS
               : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return CallInContext([&](Context& context) {
    const Context* other = FindContext(peer);
    if (!other) return CUDA_ERROR_INVALID_CONTEXT;
    std::lock_guard lock(TheState().mutex);
    return TheState().peers.erase({context.device, other->device}) == 1
               ? CUDA_SUCCESS
               : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  });
}

CUresult cuProfilerStart() { return CUDA_SUCCESS; }
CUresult cuProfilerStop() { return CUDA_SUCCESS; }
