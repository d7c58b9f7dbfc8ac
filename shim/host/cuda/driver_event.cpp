// Driver functions for events.
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"

using namespace hostgpu;

namespace {

std::atomic<hostgpuTimer> timer = nullptr;

constexpr unsigned kEventFlags =
    CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

// Returns the time in nanoseconds. With HOSTGPU_CLOCK=processor it is the processor time of this
// process, which other programs do not influence.
int64_t Now() {
  static const char* const clock = std::getenv("HOSTGPU_CLOCK");
  static const bool of_processor = clock != nullptr && std::string_view(clock) == "processor";
  timespec used = {};
  if (of_processor && clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
    return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <class Body>
CUresult CallWithEvent(CUevent handle, Body body) {
  return CallInContext([&](Context&) {
    const std::shared_ptr<Event> event = FindEvent(handle);
    return event ? body(*event) : CUDA_ERROR_INVALID_HANDLE;
  });
}

// Refuses to report whether the event is done if a capture recorded it. Asking about any other
// event is "potentially unsafe".
CUresult RefuseToAsk(const EventRecord* record) {
  const CUresult refused = record ? RefuseIfCaptured(*record) : CUDA_SUCCESS;
  return refused == CUDA_SUCCESS ? RefuseUnsafeCall() : refused;
}

CUresult ElapsedTime(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  return CallInContext([&](Context&) -> CUresult {
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    const auto start = FindEvent(start_handle), end = FindEvent(end_handle);
    if (!start || !end || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    const auto from = start->Latest(), to = end->Latest();
    if (!from || !to) return CUDA_ERROR_INVALID_HANDLE;
    for (const auto& record : {from, to}) {
      if (const CUresult refused = RefuseIfCaptured(*record)) return refused;
    }
    if (!from->ticket.Done() || !to->ticket.Done()) return CUDA_ERROR_NOT_READY;
    const hostgpuTimer told = timer;
    *milliseconds = told ? told(from->time_ns, to->time_ns)
                         : static_cast<float>(to->time_ns - from->time_ns) * 1e-6f;
    return CUDA_SUCCESS;
  });
}

}  // namespace

void hostgpuSetTimer(hostgpuTimer other) { timer = other; }

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return CallInContext([&](Context& context) {
    if (!out || (flags & ~kEventFlags)) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (hostgpuFaultDue("event")) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = Keep<CUevent>(&State::events, std::make_shared<Event>(context, flags));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy(CUevent handle) {
  return CallInContext([&](Context&) {
    State& state = TheState();
    std::lock_guard lock(state.mutex);
    return state.events.erase(reinterpret_cast<Event*>(handle)) == 1 ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  return CallOnStream(stream_handle, [&](Context&, Stream& stream) -> CUresult {
    const std::shared_ptr<Event> event = FindEvent(handle);
    if (!event || &event->context != &stream.context) return CUDA_ERROR_INVALID_HANDLE;
    auto record = std::make_shared<EventRecord>();
    bool captured = false;
    if (const CUresult refused = RecordWhileCapturing(stream, *record, &captured)) return refused;
    if (!captured) {
      record->ticket = stream.context.Enqueue(stream, [record] { record->time_ns = Now(); });
    }
    std::lock_guard lock(event->mutex);
    event->latest = std::move(record);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventQuery(CUevent handle) {
  return CallWithEvent(handle, [](const Event& event) -> CUresult {
    const auto record = event.Latest();
    if (const CUresult refused = RefuseToAsk(record.get())) return refused;
    return !record || record->ticket.Done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return CallWithEvent(handle, [](const Event& event) -> CUresult {
    const auto record = event.Latest();
    if (const CUresult refused = RefuseToAsk(record.get())) return refused;
    if (hostgpuFaultDue("synchronize")) return CUDA_ERROR_LAUNCH_FAILED;
    if (record) record->ticket.Wait();
    event.context.pools.ReleaseUnused();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
  return CallOnStream(stream_handle, [&](Context&, Stream& stream) -> CUresult {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<Event> event = FindEvent(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    const auto record = event->Latest();
    bool captured = false;
    if (const CUresult refused = WaitWhileCapturing(stream, record.get(), &captured)) {
      return refused;
    }
    if (record && !captured) stream.context.Enqueue(stream, [] {}, {record->ticket});
    return CUDA_SUCCESS;
  });
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return ElapsedTime(milliseconds, start, end);
}

#undef cuEventElapsedTime
extern "C" [[gnu::visibility("default")]] CUresult cuEventElapsedTime(float* milliseconds,
                                                                      CUevent start, CUevent end) {
  return ElapsedTime(milliseconds, start, end);
}
