// Tests events: order between streams, and time.
#include <stdlib.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/unit/host/cuda/testing.h"

namespace hostgpu::testing {
namespace {

class Events : public HostCuda {
 protected:
  Event first_, second_;
  Stream stream_, other_;
};

TEST_F(Events, ElapsedTimeIsTheStreamsNotTheCallers) {
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
  ASSERT_OK(cudaEventRecord(first_, stream_));
  ASSERT_OK(cudaLaunchHostFunc(stream_, sleep, nullptr));
  ASSERT_OK(cudaEventRecord(second_, stream_));
  ASSERT_OK(cudaEventSynchronize(second_));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  float milliseconds = 0, backwards = 0;
  ASSERT_OK(cudaEventElapsedTime(&milliseconds, first_, second_));
  EXPECT_GE(milliseconds, 30.0f);
  ASSERT_OK(cudaEventElapsedTime(&backwards, second_, first_));
  EXPECT_FLOAT_EQ(backwards, -milliseconds);
}

// The test runs in a separate process, because a process chooses its clock once.
TEST_F(Events, OfProcessorTimeDoNotCountWaiting) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("HOSTGPU_CLOCK", "processor", 1);
        const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::seconds(1)); };
        cudaEventRecord(first_, stream_);
        cudaLaunchHostFunc(stream_, sleep, nullptr);
        cudaEventRecord(second_, stream_);
        cudaEventSynchronize(second_);
        float milliseconds = -1;
        cudaEventElapsedTime(&milliseconds, first_, second_);
        std::exit(milliseconds >= 0 && milliseconds < 500 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(Events, ElapsedTimeRefusesWhatIsUnrecordedUntimedOrUnfinished) {
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first_, second_), cudaErrorInvalidResourceHandle);
  const Event untimed(cudaEventDisableTiming);
  ASSERT_OK(cudaEventRecord(untimed, stream_));
  ASSERT_OK(cudaEventRecord(first_, stream_));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first_, untimed), cudaErrorInvalidResourceHandle);
  Gate gate;
  gate.Launch(stream_);
  ASSERT_OK(cudaEventRecord(second_, stream_));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first_, second_), cudaErrorNotReady);
  gate.Open();
  ASSERT_OK(cudaEventSynchronize(second_));
  EXPECT_OK(cudaEventElapsedTime(&milliseconds, first_, second_));
}

TEST_F(Events, QueryFollowsTheRecordedWork) {
  EXPECT_OK(cudaEventQuery(first_));
  Gate gate;
  gate.Launch(stream_);
  ASSERT_OK(cudaEventRecord(first_, stream_));
  EXPECT_EQ(cudaEventQuery(first_), cudaErrorNotReady);
  gate.Open();
  EXPECT_OK(cudaEventSynchronize(first_));
  EXPECT_OK(cudaEventQuery(first_));
}

TEST_F(Events, WaitHoldsTheOtherStreamOnly) {
  Gate gate;
  Journal journal;
  gate.Launch(stream_);
  journal.Launch(stream_, 1);
  ASSERT_OK(cudaEventRecord(first_, stream_));
  ASSERT_OK(cudaStreamWaitEvent(other_, first_, 0));
  journal.Launch(other_, 2);
  EXPECT_EQ(cudaStreamQuery(other_), cudaErrorNotReady);
  gate.Open();
  EXPECT_OK(cudaStreamSynchronize(other_));
  EXPECT_EQ(journal.Read(), (std::vector<int>{1, 2}));
}

TEST_F(Events, WaitMeansTheRecordAtTheTimeOfTheCall) {
  ASSERT_OK(cudaEventRecord(first_, stream_));
  ASSERT_OK(cudaStreamWaitEvent(other_, first_, 0));
  Gate gate;
  gate.Launch(stream_);
  ASSERT_OK(cudaEventRecord(first_, stream_));
  EXPECT_OK(cudaStreamSynchronize(other_));
}

TEST_F(Events, RecordedWorkOutlivesTheEventAndTheStream) {
  cudaStream_t gone;
  cudaEvent_t event;
  ASSERT_OK(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
  ASSERT_OK(cudaEventCreate(&event));
  Gate gate;
  gate.Launch(gone);
  ASSERT_OK(cudaEventRecord(event, gone));
  ASSERT_OK(cudaStreamWaitEvent(other_, event, 0));
  ASSERT_OK(cudaEventDestroy(event));
  ASSERT_OK(cudaStreamDestroy(gone));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamQuery(other_), cudaErrorNotReady);
  gate.Open();
  EXPECT_OK(cudaStreamSynchronize(other_));
}

TEST_F(Events, InjectedFaultIsExhaustion) {
  hostgpuInjectFault("event", 2);
  cudaEvent_t event = nullptr;
  ASSERT_OK(cudaEventCreate(&event));
  EXPECT_OK(cudaEventDestroy(event));
  EXPECT_EQ(cudaEventCreate(&event), cudaErrorMemoryAllocation);
}

}  // namespace
}  // namespace hostgpu::testing
