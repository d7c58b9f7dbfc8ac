// Tests classes that own driver objects, on the stand-in's driver.
#include "cuda/resources.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "shim/host/hostgpu.h"
#include "tests/support/device.h"

namespace ucudnn::cuda {
namespace {

using test::FreeBytes;

class Resources : public test::DeviceTest {
 protected:
  void SetUp() override { ASSERT_NE(GetDriver(), nullptr); }

  static CUcontext Current() {
    CUcontext current = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    return current;
  }

  const Driver& driver() { return *GetDriver(); }
};

TEST_F(Resources, ContextScope_PushesForItsLifetimeOnly) {
  cuCtxSetCurrent(nullptr);
  {
    const ContextScope scope(driver(), context);
    EXPECT_EQ(Current(), context);
  }
  EXPECT_EQ(Current(), nullptr);
}

TEST_F(Resources, ContextScope_LeavesTheCurrentContextAsItIs) {
  {
    const ContextScope scope(driver(), context);
    EXPECT_EQ(Current(), context);
  }
  EXPECT_EQ(Current(), context);
}

TEST_F(Resources, ContextScope_IgnoresNull) {
  const ContextScope scope(driver(), nullptr);
  EXPECT_EQ(Current(), context);
}

TEST_F(Resources, RelaxedCaptureScope_RestoresTheThreadsMode) {
  for (const CUstreamCaptureMode before :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED}) {
    CUstreamCaptureMode mode = before;
    ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    {
      const RelaxedCaptureScope scope(driver());
      CUstreamCaptureMode inside = CU_STREAM_CAPTURE_MODE_RELAXED;
      ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&inside), CUDA_SUCCESS);
      EXPECT_EQ(inside, CU_STREAM_CAPTURE_MODE_RELAXED);
    }
    CUstreamCaptureMode after = CU_STREAM_CAPTURE_MODE_GLOBAL;
    ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&after), CUDA_SUCCESS);
    EXPECT_EQ(after, before);
  }
}

TEST_F(Resources, DeviceBuffer_GrowsAndGivesEverythingBack) {
  const size_t before = FreeBytes();
  {
    Stream stream(driver());
    ASSERT_TRUE(stream.Create().ok());
    MemoryPool pool(driver());
    ASSERT_TRUE(pool.Create(stream.get()).ok());
    DeviceBuffer buffer(pool, driver());
    EXPECT_TRUE(buffer.Reserve(0).ok());
    EXPECT_EQ(buffer.data(), nullptr);
    ASSERT_TRUE(buffer.Reserve(1 << 20).ok());
    EXPECT_EQ(buffer.size(), 1u << 20);
    const CUdeviceptr address = buffer.address();
    ASSERT_TRUE(buffer.Reserve(1 << 10).ok());
    EXPECT_EQ(buffer.address(), address);
    EXPECT_EQ(buffer.size(), 1u << 20);
    ASSERT_TRUE(buffer.Reserve(1 << 21).ok());
    // Freed memory returns to the device when the stream is waited for.
    ASSERT_TRUE(stream.Synchronize().ok());
    EXPECT_EQ(before - FreeBytes(), 1u << 21);
  }
  EXPECT_EQ(FreeBytes(), before);
}

TEST_F(Resources, DeviceBuffer_HoldsNothingAfterAnError) {
  const size_t before = FreeBytes();
  Stream stream(driver());
  ASSERT_TRUE(stream.Create().ok());
  MemoryPool pool(driver());
  ASSERT_TRUE(pool.Create(stream.get()).ok());
  DeviceBuffer buffer(pool, driver());
  ASSERT_TRUE(buffer.Reserve(1 << 20).ok());
  const Status status = buffer.Reserve(size_t{1} << 50);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos)
      << status.message();
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0u);
  ASSERT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_TRUE(buffer.Reserve(1 << 20).ok());
}

TEST_F(Resources, StreamAndEvent_TellOfExhaustedResources) {
  Stream stream(driver());
  hostgpuInjectFault("stream", 1);
  EXPECT_FALSE(stream.Create().ok());
  EXPECT_EQ(stream.get(), nullptr);
  EXPECT_TRUE(stream.Create().ok());
  Event event(driver());
  hostgpuInjectFault("event", 1);
  EXPECT_FALSE(event.Create().ok());
  EXPECT_TRUE(event.Create().ok());
}

TEST_F(Resources, Event_MeasuresWhatRanBetween) {
  Stream stream(driver());
  Event begin(driver()), end(driver());
  ASSERT_TRUE(stream.Create().ok() && begin.Create().ok() && end.Create().ok());
  ASSERT_TRUE(begin.Record(stream.get()).ok());
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  ASSERT_EQ(cuLaunchHostFunc(stream.get(), sleep, nullptr), CUDA_SUCCESS);
  ASSERT_TRUE(end.Record(stream.get()).ok());
  const Result<double> milliseconds = end.MillisecondsSince(begin);
  ASSERT_TRUE(milliseconds.ok()) << milliseconds.message();
  EXPECT_GE(*milliseconds, 19);
}

TEST_F(Resources, Event_HoldsAStreamBackUntilItIsReached) {
  Stream first(driver()), second(driver());
  Event event(driver()), behind(driver());
  ASSERT_TRUE(first.Create().ok() && second.CreateUrgent().ok());
  ASSERT_TRUE(event.CreateUntimed().ok() && behind.CreateUntimed().ok());
  EXPECT_FALSE(event.Pending());
  std::atomic<bool> open{false};
  const auto wait = [](void* gate) {
    while (!*static_cast<std::atomic<bool>*>(gate)) std::this_thread::yield();
  };
  ASSERT_EQ(cuLaunchHostFunc(first.get(), wait, &open), CUDA_SUCCESS);
  ASSERT_TRUE(event.Record(first.get()).ok());
  ASSERT_TRUE(event.HoldBack(second.get()).ok());
  ASSERT_TRUE(behind.Record(second.get()).ok());
  EXPECT_TRUE(event.Pending());
  EXPECT_TRUE(behind.Pending());
  open = true;
  ASSERT_TRUE(second.Synchronize().ok());
  EXPECT_FALSE(event.Pending());
  EXPECT_FALSE(behind.Pending());
}

TEST_F(Resources, Stream_UrgentOnesHaveTheHighestPriority) {
  Stream stream(driver());
  ASSERT_TRUE(stream.CreateUrgent().ok());
  int least = 0, greatest = 0, priority = 0;
  ASSERT_EQ(cuCtxGetStreamPriorityRange(&least, &greatest), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamGetPriority(stream.get(), &priority), CUDA_SUCCESS);
  EXPECT_EQ(priority, greatest);
  EXPECT_LT(greatest, least);
}

TEST_F(Resources, Driver_SaysWhatItLacksForExchange) {
  EXPECT_EQ(driver().MissingForExchange(), nullptr);
  Driver older = driver();
  older.cuStreamWaitValue32 = nullptr;
  EXPECT_STREQ(older.MissingForExchange(), "cuStreamWaitValue32");
}

TEST_F(Resources, Event_NeverRecordedHasNoTime) {
  Event begin(driver()), end(driver());
  ASSERT_TRUE(begin.Create().ok() && end.Create().ok());
  EXPECT_FALSE(end.MillisecondsSince(begin).ok());
}

TEST_F(Resources, DefaultStreamsCaptureNothing) {
  EXPECT_FALSE(IsCapturing(driver(), nullptr));
  EXPECT_FALSE(IsCapturing(driver(), CU_STREAM_LEGACY));
  Stream stream(driver());
  ASSERT_TRUE(stream.Create().ok());
  EXPECT_FALSE(IsCapturing(driver(), stream.get()));
  ASSERT_EQ(cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_TRUE(IsCapturing(driver(), stream.get()));
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream.get(), &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ucudnn::cuda
