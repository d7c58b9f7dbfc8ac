// Helpers for the stand-ins' tests: checks of statuses, and classes that own streams, events,
// graphs and memory. The runtime's handles are the driver's handles.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>

// Success is 0 in each of the libraries.
#define EXPECT_OK(call) EXPECT_EQ(static_cast<int>(call), 0)
#define ASSERT_OK(call) ASSERT_EQ(static_cast<int>(call), 0)

namespace hostgpu::test {

// Owns an object of the current device.
template <class Handle, auto kCreate, auto kDestroy, unsigned kFlags>
class Owned {
 public:
  explicit Owned(unsigned flags = kFlags) { EXPECT_OK(kCreate(&handle_, flags)); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { EXPECT_OK(kDestroy(handle_)); }
  operator Handle() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using Stream =
    Owned<cudaStream_t, cudaStreamCreateWithFlags, cudaStreamDestroy, cudaStreamNonBlocking>;
using Event = Owned<cudaEvent_t, cudaEventCreateWithFlags, cudaEventDestroy, cudaEventDefault>;

// Owns an empty graph, or a graph of what `record` enqueues on a stream.
class Graph {
 public:
  Graph() { EXPECT_OK(cudaGraphCreate(&graph_, 0)); }
  template <class Record>
  Graph(cudaStream_t stream, const Record& record,
        cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    EXPECT_OK(cudaStreamBeginCapture(stream, mode));
    record();
    EXPECT_OK(cudaStreamEndCapture(stream, &graph_));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { EXPECT_OK(cudaGraphDestroy(graph_)); }
  size_t Nodes() const {
    size_t nodes = 0;
    EXPECT_OK(cudaGraphGetNodes(graph_, nullptr, &nodes));
    return nodes;
  }
  operator cudaGraph_t() const { return graph_; }

 private:
  cudaGraph_t graph_ = nullptr;
};

class Executable {
 public:
  explicit Executable(cudaGraph_t graph) { EXPECT_OK(cudaGraphInstantiate(&exec_, graph, 0)); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() { EXPECT_OK(cudaGraphExecDestroy(exec_)); }
  // Launches the graph, and waits for the stream.
  void Run(cudaStream_t stream) const {
    EXPECT_OK(cudaGraphLaunch(exec_, stream));
    EXPECT_OK(cudaStreamSynchronize(stream));
  }
  operator cudaGraphExec_t() const { return exec_; }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

// Returns an executable graph of what `record` enqueues on `stream`.
template <class Record>
Executable Captured(cudaStream_t stream, const Record& record,
                    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
  return Executable(Graph(stream, record, mode));
}

// Owns memory of the current device; `data` is null for no bytes.
struct DeviceMemory {
  explicit DeviceMemory(size_t bytes) {
    if (bytes > 0) {
      EXPECT_OK(cudaMalloc(&data, bytes));
    }
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { EXPECT_OK(cudaFree(data)); }
  template <class T>
  T* As() const {
    return static_cast<T*>(data);
  }
  operator CUdeviceptr() const { return reinterpret_cast<CUdeviceptr>(data); }

  void* data = nullptr;
};

// Holds each stream that it is launched on until Open() or the destructor is called.
class Gate {
 public:
  ~Gate() { Open(); }
  void Launch(cudaStream_t stream) {
    EXPECT_OK(cudaLaunchHostFunc(stream, &Gate::Run, new std::shared_ptr<State>(state_)));
  }
  void Open() {
    std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }

 private:
  // The state is shared, because a stream may still be inside Run when the gate is destroyed.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  static void Run(void* argument) {
    const std::unique_ptr<std::shared_ptr<State>> held(
        static_cast<std::shared_ptr<State>*>(argument));
    State& state = **held;
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&state] { return state.open; });
  }
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace hostgpu::test
