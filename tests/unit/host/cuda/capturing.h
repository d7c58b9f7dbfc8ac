// Provides streams of both kinds for tests of stream capture, and functions that begin, inspect and
// join captures.
#pragma once

#include <thread>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {

inline CUstreamCaptureStatus StatusOf(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_OK(cuStreamIsCapturing(stream, &status));
  return status;
}

inline CUresult End(CUstream stream) {
  CUgraph graph = nullptr;
  const CUresult result = cuStreamEndCapture(stream, &graph);
  EXPECT_EQ(graph != nullptr, result == CUDA_SUCCESS);
  if (graph) {
    EXPECT_OK(cuGraphDestroy(graph));
  }
  return result;
}

// `first_`, `second_` and `outside_` do not wait for the legacy stream; `blocking_` does.
class Capturing : public HostCuda {
 protected:
  void TearDown() override {
    for (const Stream* stream : {&first_, &second_, &outside_, &blocking_}) {
      EXPECT_EQ(StatusOf(*stream), CU_STREAM_CAPTURE_STATUS_NONE);
    }
    HostCuda::TearDown();
  }
  void Begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_OK(cuStreamBeginCapture(stream, mode));
  }

  // Makes later work on `waiting` wait for all work that was enqueued on `stream` so far.
  static void Chain(CUstream stream, CUevent event, CUstream waiting) {
    EXPECT_OK(cuEventRecord(event, stream));
    EXPECT_OK(cuStreamWaitEvent(waiting, event, 0));
  }

  Stream first_, second_, outside_, blocking_{cudaStreamDefault};
  Event event_{cudaEventDisableTiming}, other_event_{cudaEventDisableTiming};
};

// Runs `body` on a new thread that has this thread's context.
template <class Body>
void OnAnotherThread(Body body) {
  CUcontext context = nullptr;
  ASSERT_OK(cuCtxGetCurrent(&context));
  std::thread([&] {
    EXPECT_OK(cuCtxSetCurrent(context));
    body();
  }).join();
}

}  // namespace hostgpu::testing
