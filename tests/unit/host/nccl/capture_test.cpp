// Tests operations in CUDA graphs: they run at each launch, not when they are captured.
#include "tests/unit/host/nccl/ranks.h"

namespace hostgpu::nccl::testing {
namespace {

// An executable graph of `body`, captured on the rank's stream.
cudaGraphExec_t Captured(const Rank& rank, const std::function<void()>& body) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
  body();
  EXPECT_CUDA(cudaStreamEndCapture(rank.stream, &graph));
  EXPECT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  return exec;
}

TEST(Capture, RunsAtEachLaunch) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> sum(100, rank.rank + 1), passed(100, 0);
    const cudaGraphExec_t exec = Captured(rank, [&] {
      EXPECT_NCCL(
          ncclAllReduce(sum.data(), sum.data(), 100, ncclInt, ncclSum, rank.comm, rank.stream));
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(ncclSend(sum.data(), 100, ncclInt, 1 - rank.rank, rank.comm, rank.stream));
      EXPECT_NCCL(ncclRecv(passed.data(), 100, ncclInt, 1 - rank.rank, rank.comm, rank.stream));
      EXPECT_NCCL(ncclGroupEnd());
    });
    EXPECT_EQ(sum.Read(rank.stream), std::vector<int>(100, rank.rank + 1)) << "captured, not run";
    for (int expected = 3; expected <= 12; expected *= 2) {
      EXPECT_CUDA(cudaGraphLaunch(exec, rank.stream));
      EXPECT_EQ(sum.Read(rank.stream), std::vector<int>(100, expected));
      EXPECT_EQ(passed.Read(rank.stream), std::vector<int>(100, expected));
    }
    EXPECT_CUDA(cudaGraphExecDestroy(exec));
  });
}

// An operation enqueued behind a graph on its stream does not keep the graph's operations from
// running.
TEST(Capture, MixesWithCallsOnTheSameStream) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> a(100, 1), b(100, 1);
    const auto reduce = [&](const Array<int>& array) {
      EXPECT_NCCL(
          ncclAllReduce(array.data(), array.data(), 100, ncclInt, ncclSum, rank.comm, rank.stream));
    };
    const cudaGraphExec_t exec = Captured(rank, [&] { reduce(a); });
    for (int round = 0; round < 5; ++round) {
      reduce(b);
      EXPECT_CUDA(cudaGraphLaunch(exec, rank.stream));
      reduce(b);
    }
    EXPECT_EQ(a.Read(rank.stream), std::vector<int>(100, 1 << 5));
    EXPECT_EQ(b.Read(rank.stream), std::vector<int>(100, 1 << 10));
    EXPECT_CUDA(cudaGraphExecDestroy(exec));
  });
}

TEST(Capture, OfAGroupOnTwoStreamsJoinsBoth) {
  WithRanks(2, [](Rank& rank) {
    cudaStream_t other;
    cudaEvent_t fork, join;
    EXPECT_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    EXPECT_CUDA(cudaEventCreate(&fork));
    EXPECT_CUDA(cudaEventCreate(&join));
    const Array<int> from(100, rank.rank), to(100, 9);
    const cudaGraphExec_t exec = Captured(rank, [&] {
      EXPECT_CUDA(cudaEventRecord(fork, rank.stream));
      EXPECT_CUDA(cudaStreamWaitEvent(other, fork, 0));
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(ncclSend(from.data(), 100, ncclInt, 1 - rank.rank, rank.comm, rank.stream));
      EXPECT_NCCL(ncclRecv(to.data(), 100, ncclInt, 1 - rank.rank, rank.comm, other));
      EXPECT_NCCL(ncclGroupEnd());
      EXPECT_CUDA(cudaEventRecord(join, other));
      EXPECT_CUDA(cudaStreamWaitEvent(rank.stream, join, 0));
    });
    EXPECT_CUDA(cudaGraphLaunch(exec, rank.stream));
    EXPECT_EQ(to.Read(rank.stream), std::vector<int>(100, 1 - rank.rank));
    EXPECT_CUDA(cudaGraphExecDestroy(exec));
    EXPECT_CUDA(cudaEventDestroy(fork));
    EXPECT_CUDA(cudaEventDestroy(join));
    EXPECT_CUDA(cudaStreamDestroy(other));
  });
}

TEST(Capture, ThatIsInvalidRefusesTheCall) {
  WithRanks(1, [](Rank& rank) {
    const Array<int> array(10, 0);
    EXPECT_CUDA(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_NE(cudaStreamSynchronize(rank.stream), cudaSuccess) << "which invalidates the capture";
    EXPECT_EQ(
        ncclAllReduce(array.data(), array.data(), 10, ncclInt, ncclSum, rank.comm, rank.stream),
        ncclUnhandledCudaError);
    cudaGraph_t graph = nullptr;
    EXPECT_NE(cudaStreamEndCapture(rank.stream, &graph), cudaSuccess);
    cudaGetLastError();
  });
}

}  // namespace
}  // namespace hostgpu::nccl::testing
