// Shared parts of the arena's tests: the stand-in's device, owners, streams whose work can be held
// up, and captures.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "interposer/budget/arena.h"
#include "tests/support/device.h"

namespace ucudnn::interposer {

// Checks that each test's arena frees all device memory that it allocated.
class ArenaTest : public test::DeviceTest {
 protected:
  ~ArenaTest() override { EXPECT_EQ(test::FreeBytes(), before); }
  ArenaOwner Owner(int handle, uint64_t stream, int kernel = -1) const {
    return {&handles[handle], stream, {}, kernel};
  }

  static constexpr size_t kLimit = 1 << 20;
  const size_t before = test::FreeBytes();
  const char handles[2] = {};
};

// A stream whose work waits until LetGo() is called.
class HeldStream {
 public:
  HeldStream() {
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    const auto wait = [](void* held) {
      while (static_cast<std::atomic<bool>*>(held)->load()) std::this_thread::yield();
    };
    EXPECT_EQ(cuLaunchHostFunc(stream_, wait, &held_), CUDA_SUCCESS);
  }
  ~HeldStream() {
    LetGo();
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
  }
  void LetGo() {
    held_ = false;
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }
  CUstream get() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
  std::atomic<bool> held_ = true;
};

// A capture that lasts as long as this object. The destructor ends it, and makes and destroys its
// graph.
class CapturedGraph {
 public:
  CapturedGraph() {
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    capture_ = cuda::CaptureOf(*cuda::GetDriver(), stream_).value_or(cuda::Capture());
  }
  ~CapturedGraph() {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
  }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  const cuda::Capture& capture() const { return capture_; }

 private:
  CUstream stream_ = nullptr;
  cuda::Capture capture_;
};

}  // namespace ucudnn::interposer
