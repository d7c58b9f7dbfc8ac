// Devices, primary contexts, each thread's current context, and the checks at the beginning of
// driver calls. The devices and contexts, in State, are never destroyed, because worker threads may
// still run when the process exits.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <unordered_map>
#include <vector>

#include "shim/host/cuda/driver_api.h"
#include "shim/host/cuda/graph.h"
#include "shim/host/cuda/memory.h"
#include "shim/host/cuda/memory_pool.h"
#include "shim/host/cuda/settings.h"
#include "shim/host/cuda/stream.h"

namespace hostgpu {

// The primary context of one device. The stand-in has no other contexts.
struct Context {
  Context(int device, size_t memory_bytes);

  // Enqueues a task in the order of the legacy default stream: tasks of the legacy stream run after
  // all earlier tasks of blocking streams, and before all later tasks of these streams. Captures
  // are not considered: the caller must have made sure that `stream` does not capture.
  Ticket Enqueue(Stream& stream, std::function<void()> run, std::vector<Ticket> after = {});
  std::shared_ptr<Stream> CreateStream(bool blocking, int priority);
  // Returns the tickets for which a synchronisation of `stream` waits. For the legacy stream, they
  // include the tickets of all blocking streams.
  std::vector<Ticket> Outstanding(const Stream& stream);
  std::vector<Ticket> Outstanding();
  void Synchronize();
  // Called when an allocation did not find enough free memory. Waits for pending stream-ordered
  // frees, and returns unused memory of the pools to the device. Returns false immediately if no
  // free is pending and no pool has unused memory.
  bool MakeRoom();
  // Destroys the context's contents, as releasing the last reference does: waits for all work,
  // destroys streams, events and memory, and forgets registered host memory.
  void Reset();

  const int device;
  DeviceMemory memory;
  StreamOrderedMemory pools{memory};
  std::shared_ptr<Stream> legacy;
  // Locked while a reference is added or removed, and while the removal of the last reference
  // destroys all objects. A thread that retains the context meanwhile waits until Reset is done.
  std::mutex lifetime;
  // Number of cuDevicePrimaryCtxRetain calls; written under `lifetime`.
  std::atomic<int> references{0};
  std::atomic<uint64_t> id;  // changes at every reset
  // Number of cuMemFreeAsync calls that are enqueued but have not run yet. Calls for memory of
  // pools do not count.
  std::atomic<int> pending_frees{0};

  CUcontext Handle() { return reinterpret_cast<CUcontext>(this); }

 private:
  std::mutex order_;
  std::vector<std::shared_ptr<Stream>>
      streams_;  // all streams but `legacy`; a closed stream stays until its tasks have run
};

// Page-locked host memory, which the stand-in allocated or the application registered.
struct HostAllocation {
  size_t bytes = 0;
  enum class Kind { kAllocated, kRegistered } kind = Kind::kAllocated;
  Context* context = nullptr;
};

struct State {
  Settings settings = ReadSettings();
  std::deque<Context> contexts;  // indexed by device
  std::mutex mutex;              // guards the members below
  std::unordered_map<Stream*, std::shared_ptr<Stream>> streams;
  std::unordered_map<Event*, std::shared_ptr<Event>> events;
  std::unordered_map<Graph*, std::shared_ptr<Graph>> graphs;
  std::unordered_map<GraphExec*, std::shared_ptr<GraphExec>> graph_execs;
  std::map<uintptr_t, HostAllocation> host;
  std::set<std::pair<int, int>> peers;  // pairs of a device and a peer that it may access

  State();
};
State& TheState();

// Returns the object of a handle in the table `table` of the state; null if the handle is unknown.
template <class Object, class Handle>
std::shared_ptr<Object> Find(std::unordered_map<Object*, std::shared_ptr<Object>> State::*table,
                             Handle handle) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  const auto found = (state.*table).find(reinterpret_cast<Object*>(handle));
  return found == (state.*table).end() ? nullptr : found->second;
}

// Adds an object to the table `table` of the state, and returns its handle.
template <class Handle, class Object>
Handle Keep(std::unordered_map<Object*, std::shared_ptr<Object>> State::*table,
            const std::shared_ptr<Object>& object) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  (state.*table).emplace(object.get(), object);
  return reinterpret_cast<Handle>(object.get());
}

// Initialize implements cuInit. Initialized returns CUDA_SUCCESS if cuInit has succeeded in this
// process; a success in the parent of a fork does not count.
CUresult Initialize();
CUresult Initialized();

// While this object exists, the calling thread counts as running a host function of the
// application. A host function may make no CUDA call.
class HostFunctionScope {
 public:
  HostFunctionScope();
  ~HostFunctionScope();
};
bool InHostFunction();

Context* CurrentContext();
// Replaces the top of the thread's stack of contexts; null removes the top.
void SetCurrentContext(Context* context);
bool PushContext(Context* context);
Context* PopContext();

// Returns the context of a handle; null if the handle is unknown.
Context* FindContext(CUcontext handle);
Context* FindDevice(CUdevice device);
std::shared_ptr<Event> FindEvent(CUevent handle);
std::shared_ptr<Graph> FindGraph(CUgraph handle);
// Returns the stream of a handle; null if the handle is unknown. A default stream's handle means
// the default stream of `current`.
std::shared_ptr<Stream> FindStream(Context& current, CUstream handle);

// Returns body() for an entry point, after the checks that all driver calls have in common. C
// callers cannot handle exceptions, so exceptions become error codes.
template <class Body>
CUresult Call(Body body) {
  if (InHostFunction()) return CUDA_ERROR_NOT_PERMITTED;
  if (const CUresult ready = Initialized(); ready != CUDA_SUCCESS) return ready;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
}

template <class Body>
CUresult CallInContext(Body body) {
  return Call([&]() -> CUresult {
    Context* context = CurrentContext();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->references == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return body(*context);
  });
}

template <class Body>
CUresult CallOnStream(CUstream handle, Body body) {
  return CallInContext([&](Context& context) -> CUresult {
    const std::shared_ptr<Stream> stream = FindStream(context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    return body(context, *stream);
  });
}

}  // namespace hostgpu
