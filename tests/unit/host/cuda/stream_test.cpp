// Tests streams: asynchrony, the order that the legacy default stream enforces, host functions, and
// hostgpuEnqueue.
#include <atomic>
#include <thread>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {
namespace {

class Streams : public HostCuda {
 protected:
  Stream blocking_{cudaStreamDefault}, other_{cudaStreamDefault}, independent_;
  Journal journal_;
};

TEST_F(Streams, EnqueuingDoesNotWait) {
  Gate gate;
  gate.Launch(blocking_);
  journal_.Launch(blocking_, 1);
  EXPECT_EQ(cudaStreamQuery(blocking_), cudaErrorNotReady);
  EXPECT_TRUE(journal_.Read().empty());
  gate.Open();
  EXPECT_OK(cudaStreamSynchronize(blocking_));
  EXPECT_EQ(journal_.Read(), std::vector<int>{1});
  EXPECT_OK(cudaStreamQuery(blocking_));
}

TEST_F(Streams, OneStreamKeepsItsOrder) {
  std::vector<int> expected;
  for (int i = 0; i < 200; ++i) {
    journal_.Launch(blocking_, i);
    expected.push_back(i);
  }
  EXPECT_OK(cudaStreamSynchronize(blocking_));
  EXPECT_EQ(journal_.Read(), expected);
}

TEST_F(Streams, TwoStreamsRunSideBySide) {
  Gate gate;
  gate.Launch(blocking_);
  journal_.Launch(other_, 1);
  EXPECT_OK(cudaStreamSynchronize(other_));
  EXPECT_EQ(journal_.Read(), std::vector<int>{1});
}

TEST_F(Streams, LegacyStreamWaitsForBlockingStreamsAndHoldsThem) {
  Gate gate;
  gate.Launch(blocking_);
  journal_.Launch(blocking_, 1);
  journal_.Launch(nullptr, 2);
  journal_.Launch(other_, 3);
  journal_.Launch(independent_, 0);
  EXPECT_OK(cudaStreamSynchronize(independent_));
  EXPECT_EQ(journal_.Read(), std::vector<int>{0});
  gate.Open();
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(journal_.Read(), (std::vector<int>{0, 1, 2, 3}));
}

TEST_F(Streams, LegacyStreamWaitsForWorkOfDestroyedStreams) {
  cudaStream_t gone;
  ASSERT_OK(cudaStreamCreate(&gone));
  Gate gate;
  gate.Launch(gone);
  journal_.Launch(gone, 1);
  ASSERT_OK(cudaStreamDestroy(gone));
  EXPECT_EQ(cudaStreamSynchronize(gone), cudaErrorInvalidResourceHandle);
  journal_.Launch(cudaStreamLegacy, 2);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  gate.Open();
  EXPECT_OK(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(journal_.Read(), (std::vector<int>{1, 2}));
}

TEST_F(Streams, PerThreadStreamIsTheThreadsOwnAndBlocking) {
  Gate gate;
  gate.Launch(cudaStreamPerThread);
  std::thread([this] {
    journal_.Launch(cudaStreamPerThread, 1);
    EXPECT_OK(cudaStreamSynchronize(cudaStreamPerThread));
  }).join();
  EXPECT_EQ(journal_.Read(), std::vector<int>{1});
  journal_.Launch(nullptr, 3);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  gate.Open();
  EXPECT_OK(cudaDeviceSynchronize());
}

TEST_F(Streams, HostFunctionsMayNotCallCuda) {
  struct Seen {
    std::atomic<int> runtime{0}, driver{0};
  } seen;
  ASSERT_OK(cudaLaunchHostFunc(
      blocking_,
      [](void* argument) {
        auto* seen = static_cast<Seen*>(argument);
        void* pointer = nullptr;
        seen->runtime = cudaMalloc(&pointer, 64);
        CUdeviceptr address = 0;
        seen->driver = cuMemAlloc(&address, 64);
      },
      &seen));
  ASSERT_OK(cudaStreamSynchronize(blocking_));
  EXPECT_EQ(seen.runtime, cudaErrorNotPermitted);
  EXPECT_EQ(seen.driver, CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(Streams, StandInsEnqueueInStreamOrder) {
  struct Note {
    Journal* journal;
    std::atomic<int> seen{-1};
  } note{&journal_};
  Gate gate;
  gate.Launch(blocking_);
  journal_.Launch(blocking_, 1);
  ASSERT_EQ(Enqueue(
                blocking_,
                [](void* argument) {
                  auto* note = static_cast<Note*>(argument);
                  note->seen = static_cast<int>(note->journal->Read().size());
                },
                &note),
            1);
  EXPECT_EQ(note.seen, -1);
  gate.Open();
  EXPECT_OK(cudaStreamSynchronize(blocking_));
  EXPECT_EQ(note.seen, 1);
  EXPECT_EQ(Enqueue(
                &note, [](void*) {}, nullptr),
            0);
}

TEST_F(Streams, PrioritiesAreClampedAndReported) {
  int least = 1, greatest = 1;
  ASSERT_OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_LT(greatest, least);
  cudaStream_t stream;
  ASSERT_OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 100));
  int priority = 1;
  EXPECT_OK(cudaStreamGetPriority(stream, &priority));
  EXPECT_EQ(priority, greatest);
  EXPECT_OK(cudaStreamDestroy(stream));
}

TEST_F(Streams, EnqueuedWorkIsReleasedOnceWhetherItRanOrNot) {
  std::atomic<int> released{0};
  const hostgpuWork work{[](void*) {}, Increment, &released, nullptr, 0};
  EXPECT_EQ(hostgpuEnqueue(blocking_, &work), 1);
  EXPECT_OK(cudaStreamSynchronize(blocking_));
  EXPECT_EQ(released, 1);
  EXPECT_EQ(hostgpuEnqueue(&released, &work), 0);
  EXPECT_EQ(released, 2);
}

TEST_F(Streams, ManyThreadsMayUseManyStreams) {
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const Stream stream(cudaStreamDefault);
      for (int i = 0; i < 50; ++i) {
        EXPECT_OK(
            cudaLaunchHostFunc(i % 10 == 0 ? nullptr : cudaStream_t{stream}, Increment, &ran));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(ran, 200);
}

TEST_F(Streams, InjectedFaultIsExhaustion) {
  hostgpuInjectFault("stream", 1);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreate(&stream), cudaErrorMemoryAllocation);
  EXPECT_EQ(hostgpuFaultCount("stream"), 1);
}

}  // namespace
}  // namespace hostgpu::testing
