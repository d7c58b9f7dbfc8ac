// Driver functions for streams and host functions, and hostgpuEnqueue.
#include <algorithm>

#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"

using namespace hostgpu;

namespace {

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
    *out = Keep<CUstream>(&State::streams,
                          context.CreateStream(blocking, std::clamp(priority, greatest, least)));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

CUresult cuStreamDestroy(CUstream handle) {
  return CallInContext([&](Context& context) -> CUresult {
    if (IsDefault(handle)) return CUDA_ERROR_INVALID_HANDLE;
    const std::shared_ptr<Stream> stream = FindStream(context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = RefuseIfCapturing(*stream)) return refused;
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    stream->Close();
    return state.streams.erase(stream.get()) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return CallOnStream(handle, [](Context&, Stream& stream) -> CUresult {
    if (const CUresult refused = RefuseIfCapturing(stream)) return refused;
    if (hostgpuFaultDue("synchronize")) return CUDA_ERROR_LAUNCH_FAILED;
    for (const Ticket& ticket : stream.context.Outstanding(stream)) ticket.Wait();
    stream.context.pools.ReleaseUnused();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return CallOnStream(handle, [](Context&, Stream& stream) -> CUresult {
    if (const CUresult refused = RefuseIfCapturing(stream)) return refused;
    const auto tickets = stream.context.Outstanding(stream);
    return std::all_of(tickets.begin(), tickets.end(), [](const Ticket& t) { return t.Done(); })
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_READY;
  });
}

// Returns the stream's context. For a stream other than a default stream, the calling thread needs
// no current context.
CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  if (IsDefault(handle)) {
    return CallInContext([&](Context& context) {
      if (!out) return CUDA_ERROR_INVALID_VALUE;
      *out = context.Handle();
      return CUDA_SUCCESS;
    });
  }
  return Call([&] {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<Stream> stream = Find(&State::streams, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    *out = stream->context.Handle();
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
  return CallOnStream(handle, [&](Context&, Stream& stream) -> CUresult {
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    const auto run = [=] {
      HostFunctionScope scope;
      function(argument);
    };
    return Submit(stream, {CU_GRAPH_NODE_TYPE_HOST, run, {}});
  });
}

int hostgpuEnqueue(void* handle, const hostgpuWork* work) try {
  // The last holder of the work, which is the stream or a graph, releases it.
  const auto release = work->release;
  const std::shared_ptr<void> argument(work->argument, [release](void* held) {
    if (release) release(held);
  });
  if (cuInit(0) != CUDA_SUCCESS) return 0;
  if (!CurrentContext()) {
    CUcontext primary = nullptr;
    if (cuDevicePrimaryCtxRetain(&primary, 0) != CUDA_SUCCESS) return 0;
    if (cuCtxSetCurrent(primary) != CUDA_SUCCESS) return 0;
  }
  return CallOnStream(static_cast<CUstream>(handle), [&](Context&, Stream& stream) {
           Work kernel;
           kernel.run = [run = work->run, argument] { run(argument.get()); };
           for (size_t i = 0; i < work->use_count; ++i) {
             kernel.uses.push_back(reinterpret_cast<uintptr_t>(work->uses[i]));
           }
           return Submit(stream, std::move(kernel));
         }) == CUDA_SUCCESS;
} catch (...) {
  return 0;
}
