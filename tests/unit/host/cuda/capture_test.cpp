// Tests captures from begin to end: what they record, forks and joins, and every way to fail.
#include <array>
#include <atomic>

#include "tests/unit/host/cuda/capturing.h"

namespace hostgpu::testing {
namespace {

using Capture = Capturing;

TEST_F(Capture, RecordsInsteadOfRunning) {
  std::atomic<int> ran{0};
  const Graph graph(first_, [&] {
    EXPECT_OK(cuLaunchHostFunc(first_, Increment, &ran));
    EXPECT_EQ(Enqueue(first_, Increment, &ran), 1);
  });
  EXPECT_OK(cuStreamSynchronize(first_));
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(graph.Nodes(), 2u);
}

TEST_F(Capture, WorkBeforeAndAfterItRunsAsUsual) {
  Journal journal;
  journal.Launch(first_, 1);
  Begin(first_);
  ASSERT_EQ(End(first_), CUDA_SUCCESS);
  journal.Launch(first_, 2);
  EXPECT_OK(cuStreamSynchronize(first_));
  EXPECT_EQ(journal.Read(), (std::vector<int>{1, 2}));
}

TEST_F(Capture, InfoTellsIdGraphAndWhatComesNext) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  cuuint64_t id = 0, second_id = 0;
  EXPECT_OK(cuStreamGetCaptureInfo(first_, &status, nullptr, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  std::atomic<int> ran{0};
  Begin(first_);
  Begin(second_);
  EXPECT_OK(cuLaunchHostFunc(first_, Increment, &ran));
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  EXPECT_OK(cuStreamGetCaptureInfo(first_, &status, &id, &graph, &nodes, &edges, &count));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(count, 1u);
  const CUgraphNode recorded = nodes[0];
  EXPECT_EQ(edges[0].type, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  EXPECT_OK(cuGraphNodeGetType(recorded, &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_HOST);
  EXPECT_OK(
      cuStreamGetCaptureInfo(second_, &status, &second_id, nullptr, nullptr, nullptr, &count));
  EXPECT_NE(id, second_id);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(cuStreamGetCaptureInfo(first_, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamGetCaptureInfo(first_, &status, nullptr, nullptr, nullptr, &edges, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  CUgraph ended = nullptr;
  EXPECT_OK(cuStreamEndCapture(first_, &ended));
  EXPECT_EQ(ended, graph);
  CUgraphNode node = nullptr;
  count = 1;
  EXPECT_OK(cuGraphGetNodes(ended, &node, &count));
  EXPECT_EQ(node, recorded);
  EXPECT_OK(cuGraphDestroy(ended));
  EXPECT_EQ(End(second_), CUDA_SUCCESS);
}

TEST_F(Capture, BeginsOnceAndNeverOnTheLegacyStream) {
  EXPECT_EQ(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamBeginCapture(first_, static_cast<CUstreamCaptureMode>(7)),
            CUDA_ERROR_INVALID_VALUE);
  Begin(first_);
  EXPECT_EQ(cuStreamBeginCapture(first_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(End(first_), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(first_, &graph), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuStreamEndCapture(first_, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Capture, ThePerThreadStreamMayCapture) {
  Begin(CU_STREAM_PER_THREAD);
  EXPECT_EQ(StatusOf(CU_STREAM_PER_THREAD), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OnAnotherThread([] { EXPECT_EQ(StatusOf(CU_STREAM_PER_THREAD), CU_STREAM_CAPTURE_STATUS_NONE); });
  EXPECT_EQ(End(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
}

TEST_F(Capture, AForkJoinsTheCaptureAndLeavesItAtTheEnd) {
  std::atomic<int> ran{0};
  Begin(first_);
  Chain(first_, event_, second_);
  EXPECT_EQ(StatusOf(second_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_OK(cuLaunchHostFunc(second_, Increment, &ran));
  Chain(second_, other_event_, first_);
  EXPECT_EQ(End(first_), CUDA_SUCCESS);
  EXPECT_EQ(StatusOf(second_), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_OK(cuLaunchHostFunc(second_, Increment, &ran));
  EXPECT_OK(cuStreamSynchronize(second_));
  EXPECT_EQ(ran, 1);
}

TEST_F(Capture, AForkThatDidNothingNeedsNoJoin) {
  std::atomic<int> ran{0};
  Begin(first_);
  EXPECT_OK(cuLaunchHostFunc(first_, Increment, &ran));
  Chain(first_, event_, second_);
  EXPECT_EQ(End(first_), CUDA_SUCCESS);
}

TEST_F(Capture, AnUnjoinedForkFailsIt) {
  std::atomic<int> ran{0};
  for (const bool joined_too_early : {false, true}) {
    Begin(first_);
    Chain(first_, event_, second_);
    EXPECT_OK(cuLaunchHostFunc(second_, Increment, &ran));
    if (joined_too_early) {
      Chain(second_, other_event_, first_);
      EXPECT_OK(cuLaunchHostFunc(second_, Increment, &ran));
    }
    EXPECT_EQ(End(first_), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_EQ(StatusOf(first_), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_EQ(StatusOf(second_), CU_STREAM_CAPTURE_STATUS_NONE);
  }
  EXPECT_EQ(ran, 0);
}

TEST_F(Capture, EndsOnlyWhereItBegan) {
  Begin(first_);
  Chain(first_, event_, second_);
  EXPECT_EQ(End(second_), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(End(first_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, EndsOnItsThreadUnlessRelaxed) {
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    Begin(first_, mode);
    OnAnotherThread(
        [&] { EXPECT_EQ(End(first_), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) << mode; });
    EXPECT_EQ(End(first_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) << mode;
  }
  Begin(first_, CU_STREAM_CAPTURE_MODE_RELAXED);
  OnAnotherThread([&] { EXPECT_EQ(End(first_), CUDA_SUCCESS); });
}

TEST_F(Capture, TwoMayNotMerge) {
  Begin(first_);
  Begin(second_);
  EXPECT_OK(cuEventRecord(event_, first_));
  EXPECT_EQ(cuStreamWaitEvent(second_, event_, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  EXPECT_EQ(End(first_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(End(second_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, DoesNotWaitForWhatWasNotCaptured) {
  EXPECT_OK(cuEventRecord(event_, outside_));
  for (const Event* event : {&event_, &other_event_}) {  // other_event_ was never recorded
    Begin(first_);
    EXPECT_EQ(cuStreamWaitEvent(first_, *event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    EXPECT_EQ(End(first_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}

TEST_F(Capture, NothingWaitsForACaptureThatIsOver) {
  Begin(first_);
  EXPECT_OK(cuEventRecord(event_, first_));
  EXPECT_EQ(End(first_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(outside_, event_, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  Chain(outside_, event_, second_);
  EXPECT_OK(cuEventSynchronize(event_));
}

TEST_F(Capture, CapturedEventsAreNotAskedWhateverTheMode) {
  const Event timed;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  float milliseconds = 0;
  for (const int call : {0, 1, 2}) {
    Begin(first_, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_OK(cuEventRecord(timed, first_));
    const auto ask = [&] {
      return call == 0   ? cuEventQuery(timed)
             : call == 1 ? cuEventSynchronize(timed)
                         : cuEventElapsedTime(&milliseconds, timed, timed);
    };
    EXPECT_EQ(ask(), CUDA_ERROR_CAPTURED_EVENT) << call;
    EXPECT_EQ(End(first_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) << call;
    EXPECT_EQ(ask(), CUDA_ERROR_CAPTURED_EVENT) << call;
  }
  EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_OK(cuEventRecord(timed, outside_));
  EXPECT_OK(cuEventSynchronize(timed));
}

TEST_F(Capture, OfABlockingStreamForbidsTheLegacyOne) {
  std::atomic<int> ran{0};
  const DeviceMemory memory(64);
  char host[64] = {};
  for (const int call : {0, 1, 2, 3, 4, 5, 6, 7}) {
    Begin(blocking_, CU_STREAM_CAPTURE_MODE_RELAXED);
    const CUresult result = call == 0   ? cuLaunchHostFunc(nullptr, Increment, &ran)
                            : call == 1 ? cuStreamSynchronize(CU_STREAM_LEGACY)
                            : call == 2 ? cuStreamQuery(nullptr)
                            : call == 3 ? cuEventRecord(event_, nullptr)
                            : call == 4 ? cuStreamWaitEvent(nullptr, event_, 0)
                            : call == 5 ? cuMemcpyHtoD(memory, host, sizeof host)
                            : call == 6 ? cuMemsetD8(memory, 0, 64)
                                        : cuMemFreeAsync(memory, nullptr);
    EXPECT_EQ(result, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) << call;
    EXPECT_EQ(End(blocking_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) << call;
  }
  EXPECT_EQ(ran, 0);
}

TEST_F(Capture, AskingTheLegacyStreamWhetherItCapturesSpoilsNothing) {
  CUstreamCaptureStatus status;
  Begin(blocking_);
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(End(blocking_), CUDA_SUCCESS);
  Begin(first_);
  EXPECT_EQ(StatusOf(nullptr), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(End(first_), CUDA_SUCCESS);
}

TEST_F(Capture, TheLegacyStreamOfAnotherDeviceIsFree) {
  Begin(blocking_);
  ASSERT_OK(cudaSetDevice(1));
  EXPECT_OK(cuStreamSynchronize(nullptr));
  ASSERT_OK(cudaSetDevice(0));
  EXPECT_EQ(End(blocking_), CUDA_SUCCESS);
}

TEST_F(Capture, TheLegacyStreamNeverJoins) {
  Begin(first_);
  EXPECT_OK(cuEventRecord(event_, first_));
  EXPECT_EQ(cuStreamWaitEvent(nullptr, event_, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(End(first_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, OnceInvalidatedRefusesEverythingUntilItsEnd) {
  std::atomic<int> ran{0};
  Begin(first_);
  Chain(first_, event_, second_);
  EXPECT_EQ(cuStreamSynchronize(second_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  for (const CUstream stream : std::array<CUstream, 2>{first_, second_}) {
    EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(cuLaunchHostFunc(stream, Increment, &ran), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(Enqueue(stream, Increment, &ran), 0);
    EXPECT_EQ(cuEventRecord(other_event_, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_ERROR_ILLEGAL_STATE);
  }
  EXPECT_EQ(cuStreamWaitEvent(outside_, event_, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(End(first_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_OK(cuLaunchHostFunc(second_, Increment, &ran));
  EXPECT_OK(cuStreamSynchronize(second_));
  EXPECT_EQ(ran, 1);
}

TEST_F(Capture, EndsWithItsContext) {
  ASSERT_OK(cudaSetDevice(1));
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Begin(stream);
  ASSERT_OK(cudaDeviceReset());
  ASSERT_OK(cudaSetDevice(0));
  CUdeviceptr memory = 0;
  EXPECT_OK(cuMemAlloc(&memory, 64));
  EXPECT_OK(cuMemFree(memory));
}

TEST_F(Capture, TheRuntimeSpeaksOfTheSameCapture) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 7;
  ASSERT_OK(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(StatusOf(first_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_OK(cudaStreamIsCapturing(first_, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_OK(cudaStreamGetCaptureInfo(first_, &status, &id, &graph, &nodes, &edges, &count));
  EXPECT_NE(id, 0u);
  EXPECT_NE(graph, nullptr);
  EXPECT_EQ(count, 0u);
  void* memory = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_OK(cudaMalloc(&memory, 64));
  EXPECT_OK(cudaFree(memory));
  EXPECT_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(cudaMalloc(&memory, 64), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(first_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
}

}  // namespace
}  // namespace hostgpu::testing
