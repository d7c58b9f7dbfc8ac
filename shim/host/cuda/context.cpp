#include "shim/host/cuda/context.h"

#include <pthread.h>

#include <array>
#include <utility>

#include "shim/host/cuda/capture.h"
#include "shim/host/leaked.h"

namespace hostgpu {
namespace {

uint64_t NextContextId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

std::atomic<bool> initialized{false};
// True if this process was forked after initialisation. CUDA does not work in such a process.
std::atomic<bool> forked{false};

// Trivially destructible, so that destructors of other thread-local objects can still make CUDA
// calls.
struct ThreadContexts {
  std::array<Context*, 64> stack;
  size_t depth;
};
thread_local ThreadContexts contexts;
thread_local int host_functions = 0;

// The calling thread's cudaStreamPerThread of each device. The destructor closes these streams when
// the thread ends.
struct PerThreadStreams {
  std::vector<std::shared_ptr<Stream>> by_device;
  ~PerThreadStreams() {
    for (const auto& stream : by_device) {
      if (stream) stream->Close();
    }
  }
};
thread_local PerThreadStreams per_thread;

std::shared_ptr<Stream> PerThreadStream(Context& context) {
  auto& streams = per_thread.by_device;
  if (streams.empty()) streams.resize(TheState().contexts.size());
  auto& stream = streams[context.device];
  if (!stream) stream = context.CreateStream(true, 0);
  return stream;
}

}  // namespace

Context::Context(int device, size_t memory_bytes)
    : device(device),
      memory(memory_bytes),
      legacy(std::make_shared<Stream>(*this, true, 0)),
      id(NextContextId()) {}

Ticket Context::Enqueue(Stream& stream, std::function<void()> run, std::vector<Ticket> after) {
  std::lock_guard lock(order_);
  if (&stream == legacy.get()) {
    std::erase_if(streams_, [](const auto& other) { return other->Drained(); });
    for (const auto& other : streams_) {
      if (other->blocking && !other->Last().Done()) after.push_back(other->Last());
    }
  } else if (stream.blocking && !legacy->Last().Done()) {
    after.push_back(legacy->Last());
  }
  return stream.Enqueue(std::move(run), std::move(after));
}

std::shared_ptr<Stream> Context::CreateStream(bool blocking, int priority) {
  auto stream = std::make_shared<Stream>(*this, blocking, priority);
  std::lock_guard lock(order_);
  std::erase_if(streams_, [](const auto& other) { return other->Drained(); });
  streams_.push_back(stream);
  return stream;
}

std::vector<Ticket> Context::Outstanding(const Stream& stream) {
  std::lock_guard lock(order_);
  std::vector<Ticket> tickets{stream.Last()};
  if (&stream == legacy.get()) {
    for (const auto& other : streams_) {
      if (other->blocking) tickets.push_back(other->Last());
    }
  }
  return tickets;
}

std::vector<Ticket> Context::Outstanding() {
  std::lock_guard lock(order_);
  std::vector<Ticket> tickets{legacy->Last()};
  for (const auto& stream : streams_) tickets.push_back(stream->Last());
  return tickets;
}

void Context::Synchronize() {
  for (const Ticket& ticket : Outstanding()) ticket.Wait();
}

bool Context::MakeRoom() {
  if (pending_frees == 0 && !pools.HoldsUnused()) return false;
  Synchronize();
  pools.ReleaseUnused();
  return true;
}

void Context::Reset() {
  AbandonCaptures(*this);
  Synchronize();
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  std::erase_if(state.streams, [this](const auto& entry) {
    if (&entry.second->context != this) return false;
    entry.second->Close();
    return true;
  });
  std::erase_if(state.events, [this](const auto& entry) { return &entry.second->context == this; });
  std::erase_if(state.peers, [this](const auto& pair) { return pair.first == device; });
  // Registered memory belongs to the application. The context only made it page-locked, so Reset
  // removes only the entries.
  std::erase_if(state.host, [this](const auto& entry) {
    return entry.second.context == this && entry.second.kind == HostAllocation::Kind::kRegistered;
  });
  memory.FreeAll();
  pools.Forget();
  id = NextContextId();
}

State::State() {
  for (int device = 0; device < settings.devices; ++device) {
    contexts.emplace_back(device, settings.memory_bytes);
  }
}

State& TheState() { return Leaked<State>(); }

CUresult Initialize() {
  if (forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (TheState().contexts.empty()) return CUDA_ERROR_NO_DEVICE;
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forked = initialized.load(); });
  if (registered != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  initialized = true;
  return CUDA_SUCCESS;
}

CUresult Initialized() {
  return initialized && !forked ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

HostFunctionScope::HostFunctionScope() { ++host_functions; }
HostFunctionScope::~HostFunctionScope() { --host_functions; }
bool InHostFunction() { return host_functions > 0; }

Context* CurrentContext() {
  return contexts.depth == 0 ? nullptr : contexts.stack[contexts.depth - 1];
}

void SetCurrentContext(Context* context) {
  if (contexts.depth > 0) --contexts.depth;
  if (context) contexts.stack[contexts.depth++] = context;
}

bool PushContext(Context* context) {
  if (contexts.depth == contexts.stack.size()) return false;
  contexts.stack[contexts.depth++] = context;
  return true;
}

Context* PopContext() { return contexts.depth == 0 ? nullptr : contexts.stack[--contexts.depth]; }

Context* FindContext(CUcontext handle) {
  for (Context& context : TheState().contexts) {
    if (context.Handle() == handle) return &context;
  }
  return nullptr;
}

Context* FindDevice(CUdevice device) {
  auto& contexts = TheState().contexts;
  return device >= 0 && static_cast<size_t>(device) < contexts.size() ? &contexts[device] : nullptr;
}

std::shared_ptr<Event> FindEvent(CUevent handle) { return Find(&State::events, handle); }

std::shared_ptr<Graph> FindGraph(CUgraph handle) { return Find(&State::graphs, handle); }

std::shared_ptr<Stream> FindStream(Context& current, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return current.legacy;
  if (handle == CU_STREAM_PER_THREAD) return PerThreadStream(current);
  return Find(&State::streams, handle);
}

}  // namespace hostgpu
