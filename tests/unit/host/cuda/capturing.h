// What the tests of stream capture share: streams of both kinds, and a capture that a test can look
// at and end.
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
  void SetUp() override {
    HostCuda::SetUp();
    for (CUstream* stream : {&first_, &second_, &outside_}) {
      ASSERT_OK(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    }
    ASSERT_OK(cuStreamCreate(&blocking_, CU_STREAM_DEFAULT));
    for (CUevent* event : {&event_, &other_event_}) {
      ASSERT_OK(cuEventCreate(event, CU_EVENT_DISABLE_TIMING));
    }
  }
  void TearDown() override {
    for (CUevent event : {event_, other_event_}) EXPECT_OK(cuEventDestroy(event));
    for (CUstream stream : {first_, second_, outside_, blocking_}) {
      EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_NONE);
      EXPECT_OK(cuStreamDestroy(stream));
    }
    HostCuda::TearDown();
  }
  void Begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_OK(cuStreamBeginCapture(stream, mode));
  }

  CUstream first_ = nullptr, second_ = nullptr, outside_ = nullptr, blocking_ = nullptr;
  CUevent event_ = nullptr, other_event_ = nullptr;
};

// Runs `body` on a thread of its own that has this thread's context.
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
