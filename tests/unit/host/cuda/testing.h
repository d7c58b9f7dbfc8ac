// Provides two small devices, and host functions whose order can be checked, for the stand-in's
// tests.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "shim/host/hostgpu.h"
#include "tests/unit/host/shared.h"

namespace hostgpu::testing {

using test::Captured;
using test::DeviceMemory;
using test::Event;
using test::Executable;
using test::Gate;
using test::Graph;
using test::Stream;

constexpr size_t kDeviceBytes = size_t{64} << 20;
constexpr int kDevices = 2;

// Records the names of host functions in the order in which they run.
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

// Enqueues run(argument) by hostgpuEnqueue, as the stand-ins do. The work needs no release and no
// device memory.
inline int Enqueue(void* stream, void (*run)(void*), void* argument) {
  const hostgpuWork work{run, nullptr, argument, nullptr, 0};
  return hostgpuEnqueue(stream, &work);
}

// Increments a std::atomic<int>. Can be enqueued as a host function.
inline void Increment(void* count) { ++*static_cast<std::atomic<int>*>(count); }

// Before each test device 0 is selected and no error is pending. After each test all work is
// finished, and no fault of allocations, pools, streams, events or synchronisation is armed.
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
