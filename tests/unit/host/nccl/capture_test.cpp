// Tests that operations in CUDA graphs run at each launch, and not while they are captured.
#include "tests/unit/host/nccl/ranks.h"

namespace hostgpu::nccl::testing {
namespace {

// Returns an executable graph of `body`, captured on the rank's stream.
Executable Captured(const Rank& rank, const std::function<void()>& body) {
  return test::Captured(rank.stream, body, cudaStreamCaptureModeThreadLocal);
}

TEST(Capture, RunsAtEachLaunch) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> sum(100, rank.rank + 1), passed(100, 0);
    const Executable exec = Captured(rank, [&] {
      EXPECT_NCCL(rank.Sum(sum));
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(rank.Send(sum, 1 - rank.rank));
      EXPECT_NCCL(rank.Receive(passed, 1 - rank.rank));
      EXPECT_NCCL(ncclGroupEnd());
    });
    EXPECT_EQ(sum.Read(rank.stream), std::vector<int>(100, rank.rank + 1)) << "captured, not run";
    for (int expected = 3; expected <= 12; expected *= 2) {
      EXPECT_CUDA(cudaGraphLaunch(exec, rank.stream));
      EXPECT_EQ(sum.Read(rank.stream), std::vector<int>(100, expected));
      EXPECT_EQ(passed.Read(rank.stream), std::vector<int>(100, expected));
    }
  });
}

// An operation that is enqueued after a graph on the same stream must not keep the graph's
// operations from running.
TEST(Capture, MixesWithCallsOnTheSameStream) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> a(100, 1), b(100, 1);
    const Executable exec = Captured(rank, [&] { EXPECT_NCCL(rank.Sum(a)); });
    for (int round = 0; round < 5; ++round) {
      EXPECT_NCCL(rank.Sum(b));
      EXPECT_CUDA(cudaGraphLaunch(exec, rank.stream));
      EXPECT_NCCL(rank.Sum(b));
    }
    EXPECT_EQ(a.Read(rank.stream), std::vector<int>(100, 1 << 5));
    EXPECT_EQ(b.Read(rank.stream), std::vector<int>(100, 1 << 10));
  });
}

TEST(Capture, OfAGroupOnTwoStreamsJoinsBoth) {
  WithRanks(2, [](Rank& rank) {
    const Stream other;
    const Event fork, join;
    const Array<int> from(100, rank.rank), to(100, 9);
    const Executable exec = Captured(rank, [&] {
      EXPECT_CUDA(cudaEventRecord(fork, rank.stream));
      EXPECT_CUDA(cudaStreamWaitEvent(other, fork, 0));
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(rank.Send(from, 1 - rank.rank));
      EXPECT_NCCL(ncclRecv(to.data(), 100, ncclInt, 1 - rank.rank, rank.comm, other));
      EXPECT_NCCL(ncclGroupEnd());
      EXPECT_CUDA(cudaEventRecord(join, other));
      EXPECT_CUDA(cudaStreamWaitEvent(rank.stream, join, 0));
    });
    EXPECT_CUDA(cudaGraphLaunch(exec, rank.stream));
    EXPECT_EQ(to.Read(rank.stream), std::vector<int>(100, 1 - rank.rank));
  });
}

TEST(Capture, ThatIsInvalidRefusesTheCall) {
  WithRanks(1, [](Rank& rank) {
    const Array<int> array(10, 0);
    EXPECT_CUDA(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_NE(cudaStreamSynchronize(rank.stream), cudaSuccess) << "which invalidates the capture";
    EXPECT_EQ(rank.Sum(array), ncclUnhandledCudaError);
    cudaGraph_t graph = nullptr;
    EXPECT_NE(cudaStreamEndCapture(rank.stream, &graph), cudaSuccess);
    cudaGetLastError();
  });
}

}  // namespace
}  // namespace hostgpu::nccl::testing
