// Driver functions for primary contexts, for a thread's current context and for access between
// contexts.
#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"

using namespace hostgpu;

namespace {

constexpr int kGreatestPriority = -5;

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return Call([&] {
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    Context* primary = FindDevice(device);
    if (!primary) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(primary->lifetime);
    ++primary->references;
    *context = primary->Handle();
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return Call([&] {
    Context* primary = FindDevice(device);
    if (!primary) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(primary->lifetime);
    if (primary->references == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary->references == 0) primary->Reset();
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return Call([&] {
    Context* primary = FindDevice(device);
    if (!primary) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(primary->lifetime);
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
    *flags = 0;
    *active = primary->references > 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  return Call([&] {
    Context* context = handle ? FindContext(handle) : nullptr;
    if (handle && !context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context && context->references == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    SetCurrentContext(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
  return Call([&] {
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    Context* context = CurrentContext();
    *handle = context ? context->Handle() : nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent(CUcontext handle) {
  return Call([&] {
    Context* context = FindContext(handle);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->references == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return PushContext(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

CUresult cuCtxPopCurrent(CUcontext* handle) {
  return Call([&] {
    Context* context = PopContext();
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

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  return Call([&] {
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    const Context* context = handle ? FindContext(handle) : CurrentContext();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->references == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = context->id;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return CallInContext([](Context& context) -> CUresult {
    if (const CUresult refused = RefuseIfCapturing(context)) return refused;
    if (hostgpuFaultDue("synchronize")) return CUDA_ERROR_LAUNCH_FAILED;
    context.Synchronize();
    context.pools.ReleaseUnused();
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
