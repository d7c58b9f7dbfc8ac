// Devices, primary contexts, each thread's current context, and the checks with which every driver
// call begins. Everything is created once and leaked: at exit worker threads may still be running.
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

// The primary context of one device; there are no others.
struct Context {
  Context(int device, size_t memory_bytes);

  // Called by Submit, which knows of captures. Enqueues in the legacy default stream's order: its
  // tasks follow all tasks in blocking streams, and all tasks in blocking streams follow its tasks.
  Ticket Enqueue(Stream& stream, std::function<void()> run, std::vector<Ticket> after = {});
  std::shared_ptr<Stream> CreateStream(bool blocking, int priority);
  // Returns the tickets that synchronising with `stream` waits for: the legacy stream stands for
  // all blocking ones.
  std::vector<Ticket> Outstanding(const Stream& stream);
  std::vector<Ticket> Outstanding();
  void Synchronize();
  // To be called when an allocation found no room: waits for stream-ordered frees and empties the
  // pools. Returns false if that frees nothing.
  bool MakeRoom();
  // Waits, then destroys streams, events and memory, and forgets registered host memory, as
  // releasing the last reference does.
  void Reset();

  const int device;
  DeviceMemory memory;
  StreamOrderedMemory pools{memory};
  std::shared_ptr<Stream> legacy;
  // Held while a reference is added or removed, and while removing the last one destroys
  // everything: a thread that retains the context then waits, and finds a new one.
  std::mutex lifetime;
  std::atomic<int> references{0};  // from cuDevicePrimaryCtxRetain; written under `lifetime`
  std::atomic<uint64_t> id;        // a new one after every reset
  // Frees by cuMemFreeAsync, of memory that belongs to no pool, that the stream has not reached.
  std::atomic<int> pending_frees{0};

  CUcontext Handle() { return reinterpret_cast<CUcontext>(this); }

 private:
  std::mutex order_;
  std::vector<std::shared_ptr<Stream>>
      streams_;  // without the legacy one; closed streams stay until they are drained
};

// Page-locked host memory, allocated by the stand-in or registered by the application.
struct HostAllocation {
  size_t bytes = 0;
  enum class Kind { kAllocated, kRegistered } kind = Kind::kAllocated;
  Context* context = nullptr;
};

struct State {
  Settings settings = ReadSettings();
  std::deque<Context> contexts;  // by device
  std::mutex mutex;              // guards the members that follow
  std::unordered_map<Stream*, std::shared_ptr<Stream>> streams;
  std::unordered_map<Event*, std::shared_ptr<Event>> events;
  std::unordered_map<Graph*, std::shared_ptr<Graph>> graphs;
  std::unordered_map<GraphExec*, std::shared_ptr<GraphExec>> graph_execs;
  std::map<uintptr_t, HostAllocation> host;
  std::set<std::pair<int, int>> peers;  // (device, peer that it may reach)

  State();
};
State& TheState();

// Returns the object of a handle in one of the state's tables; null if there is none.
template <class Object, class Handle>
std::shared_ptr<Object> Find(std::unordered_map<Object*, std::shared_ptr<Object>> State::*table,
                             Handle handle) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  const auto found = (state.*table).find(reinterpret_cast<Object*>(handle));
  return found == (state.*table).end() ? nullptr : found->second;
}

// Adds an object to one of the state's tables. Returns its handle.
template <class Handle, class Object>
Handle Keep(std::unordered_map<Object*, std::shared_ptr<Object>> State::*table,
            const std::shared_ptr<Object>& object) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  (state.*table).emplace(object.get(), object);
  return reinterpret_cast<Handle>(object.get());
}

// CUDA_SUCCESS once cuInit has succeeded in this process (not in a parent from which it was
// forked).
CUresult Initialize();
CUresult Initialized();

// Marks the calling thread as one that runs an application's host function: no CUDA call is
// permitted.
class HostFunctionScope {
 public:
  HostFunctionScope();
  ~HostFunctionScope();
};
bool InHostFunction();

Context* CurrentContext();
void SetCurrentContext(Context* context);  // replaces the top of the thread's stack; null pops it
bool PushContext(Context* context);
Context* PopContext();

// Returns the context behind a handle; null if it is unknown.
Context* FindContext(CUcontext handle);
Context* FindDevice(CUdevice device);
std::shared_ptr<Event> FindEvent(CUevent handle);
std::shared_ptr<Graph> FindGraph(CUgraph handle);
// Returns the stream behind a handle; resolves default streams in `current`. Null if the handle is
// unknown.
std::shared_ptr<Stream> FindStream(Context& current, CUstream handle);

// Runs the body of an entry point: no exception crosses the C border.
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
