// Streams, host functions, capture (which the stand-in refuses) and the stand-ins' own enqueue.
#include <algorithm>

#include "shim/host/cuda/context.h"

using hostgpu::CallInContext;
using hostgpu::CallOnStream;
using hostgpu::Context;
using hostgpu::State;
using hostgpu::Stream;
using hostgpu::TheState;
using hostgpu::Ticket;

namespace {

thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool IsDefault(CUstream handle) {
  return handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

}  // namespace

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return CallInContext([&](Context& context) {
    if (!out || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (hostgpuFaultDue("stream")) return CUDA_ERROR_OUT_OF_MEMORY;
    int least = 0, greatest = 0;
    cuCtxGetStreamPriorityRange(&least, &greatest);
    const bool blocking = !(flags & CU_STREAM_NON_BLOCKING);
    auto stream = context.CreateStream(blocking, flags, std::clamp(priority, greatest, least));
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    *out = reinterpret_cast<CUstream>(stream.get());
    state.streams.emplace(stream.get(), std::move(stream));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

CUresult cuStreamDestroy(CUstream handle) {
  return CallInContext([&](Context&) {
    if (IsDefault(handle)) return CUDA_ERROR_INVALID_HANDLE;
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    const auto found = state.streams.find(reinterpret_cast<Stream*>(handle));
    if (found == state.streams.end()) return CUDA_ERROR_INVALID_HANDLE;
    found->second->Close();
    state.streams.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return CallOnStream(handle, [](Context&, Stream& stream) {
    for (const Ticket& ticket : stream.context.Outstanding(stream)) ticket.Wait();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return CallOnStream(handle, [](Context&, Stream& stream) {
    const auto tickets = stream.context.Outstanding(stream);
    return std::all_of(tickets.begin(), tickets.end(), [](const Ticket& t) { return t.Done(); })
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_READY;
  });
}

// An explicit stream tells its context also to a thread that has none.
CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  if (IsDefault(handle)) {
    return CallInContext([&](Context& context) {
      if (!out) return CUDA_ERROR_INVALID_VALUE;
      *out = context.Handle();
      return CUDA_SUCCESS;
    });
  }
  return hostgpu::Call([&] {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    const auto found = state.streams.find(reinterpret_cast<Stream*>(handle));
    if (found == state.streams.end()) return CUDA_ERROR_INVALID_HANDLE;
    *out = found->second->context.Handle();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = stream.context.device;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (!priority) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream.priority;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    *id = stream.id;
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* argument) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    stream.context.Enqueue(stream, [=] {
      hostgpu::HostFunctionScope scope;
      function(argument);
    });
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* argument,
                             unsigned flags) {
  return CallOnStream(handle, [&](Context&, Stream& stream) {
    if (!callback || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    stream.context.Enqueue(stream, [=] {
      hostgpu::HostFunctionScope scope;
      callback(handle, CUDA_SUCCESS, argument);
    });
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return CallOnStream(handle, [&](Context&, Stream&) {
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph*, const CUgraphNode**, const CUgraphEdgeData**,
                                   size_t*) {
  if (id) *id = 0;
  return cuStreamIsCapturing(handle, status);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph*, const CUgraphNode**, size_t*) {
  if (id) *id = 0;
  return cuStreamIsCapturing(handle, status);
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode) {
  return CallOnStream(handle, [](Context&, Stream&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph*) {
  return CallOnStream(handle, [](Context&, Stream&) { return CUDA_ERROR_NOT_SUPPORTED; });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return hostgpu::Call([&] {
    if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
  });
}

int hostgpuEnqueue(void* handle, void (*run)(void*), void* argument) {
  if (cuInit(0) != CUDA_SUCCESS) return 0;
  if (!hostgpu::CurrentContext()) {
    CUcontext primary = nullptr;
    if (cuDevicePrimaryCtxRetain(&primary, 0) != CUDA_SUCCESS) return 0;
    if (cuCtxSetCurrent(primary) != CUDA_SUCCESS) return 0;
  }
  return CallOnStream(static_cast<CUstream>(handle), [&](Context&, Stream& stream) {
           stream.context.Enqueue(stream, [=] { run(argument); });
           return CUDA_SUCCESS;
         }) == CUDA_SUCCESS;
}
