// What the stand-in's tests share: two small devices, and host functions that hold a stream.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "shim/host/hostgpu.h"

#define EXPECT_OK(call) EXPECT_EQ(static_cast<int>(call), 0)
#define ASSERT_OK(call) ASSERT_EQ(static_cast<int>(call), 0)

namespace hostgpu::testing {

constexpr size_t kDeviceBytes = size_t{64} << 20;
constexpr int kDevices = 2;

// Holds each stream that it is launched on until it is opened, at the latest by its destructor.
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
  // Shared, because a stream may still be leaving when the gate itself is gone.
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

// Writes down the names of what runs, in the order in which it runs.
class Journal {
 public:
  void Launch(cudaStream_t stream, int name) {
    EXPECT_OK(cudaLaunchHostFunc(stream, &Journal::Run, new Entry{this, name}));
  }
  void Write(int name) {
    std::lock_guard lock(mutex_);
    names_.push_back(name);
  }
  std::vector<int> Read() {
    std::lock_guard lock(mutex_);
    return names_;
  }

 private:
  struct Entry {
    Journal* journal;
    int name;
  };
  static void Run(void* argument) {
    const std::unique_ptr<Entry> entry(static_cast<Entry*>(argument));
    entry->journal->Write(entry->name);
  }
  std::mutex mutex_;
  std::vector<int> names_;
};

// Enqueues, as the stand-ins do, something that needs no release and no device memory.
inline int Enqueue(void* stream, void (*run)(void*), void* argument) {
  const hostgpuWork work{run, nullptr, argument, nullptr, 0};
  return hostgpuEnqueue(stream, &work);
}

// Before each test device 0 is selected and no error is left over; after it everything is finished
// and no fault is armed.
class HostCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cudaSetDevice(0));
    cudaGetLastError();
  }
  void TearDown() override {
    for (const char* site : {"alloc", "pool", "stream", "event", "synchronize"})
      hostgpuInjectFault(site, 0);
    cudaSetDevice(0);
    EXPECT_OK(cudaDeviceSynchronize());
  }
};

}  // namespace hostgpu::testing
