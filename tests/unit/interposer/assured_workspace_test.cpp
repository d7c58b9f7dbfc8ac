// Tests workspace that the arena has assured while other owners' work runs, inside captures, and if
// the device has no more memory.
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "arena_setting.h"
#include "shim/host/hostgpu.h"

namespace ucudnn::interposer {
namespace {

TEST_F(ArenaTest, GrowsWhatIsAssured) {
  Arena arena(*cuda::GetDriver(), context, 5000);
  ASSERT_TRUE(arena.Assure(1000));
  EXPECT_TRUE(arena.Assure(500)) << "that is there";
  EXPECT_EQ(arena.assured_bytes(), 1000u);
  EXPECT_EQ(arena.set_aside_bytes(), 2000u);
  EXPECT_EQ(arena.capture_bytes(), 1000u);
  arena.Fix();
  EXPECT_EQ(arena.Available(Owner(0, 1)), 3000u);
  EXPECT_NE(arena.Take(Owner(0, 1), 2000, nullptr).data, nullptr);
  ASSERT_TRUE(arena.Assure(1001));
  EXPECT_EQ(arena.set_aside_bytes(), 2002u);
  EXPECT_EQ(arena.bytes(), 4002u) << "the former is free";
  EXPECT_FALSE(arena.Assure(3001)) << "no room beside what others have";
  EXPECT_EQ(arena.assured_bytes(), 1001u);
  EXPECT_EQ(arena.set_aside_bytes(), 2002u);
  ASSERT_TRUE(arena.Assure(1900)) << "and nothing for a capture";
  EXPECT_EQ(arena.capture_bytes(), 0u);
  arena.Waited(arena.Leave(&handles[0]));
  EXPECT_EQ(arena.set_aside_bytes(), 1900u) << "it outlives the handles";
  EXPECT_TRUE(arena.Assure(1900));
  EXPECT_EQ(arena.capture_bytes(), 1900u) << "there is room now";
  EXPECT_LE(arena.bytes(), 5000u);
}

TEST_F(ArenaTest, ThreadsThatAssureAtOnceGetTheMost) {
  for (int round = 0; round < 50; ++round) {
    Arena arena(*cuda::GetDriver(), context, kLimit);
    std::vector<std::thread> threads;
    for (const size_t bytes : {1000, 3000, 2000, 3000}) {
      threads.emplace_back([&arena, bytes] { EXPECT_TRUE(arena.Assure(bytes)); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(arena.assured_bytes(), 3000u);
    EXPECT_EQ(arena.set_aside_bytes(), 6000u);
  }
}

TEST_F(ArenaTest, StreamsDoNotWaitForEachOthersAssuredWork) {
  Arena arena(*cuda::GetDriver(), context, 2000);
  ASSERT_TRUE(arena.Assure(1000));
  HeldStream first;
  CUstream second;
  ASSERT_EQ(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  const Arena::Segment segment = arena.BorrowAssured(Owner(0, 1), 1000, first.get());
  ASSERT_NE(segment.data, nullptr);
  const Arena::Segment other = arena.BorrowAssured(Owner(0, 2), 900, second);
  EXPECT_NE(other.data, nullptr);
  EXPECT_NE(other.data, segment.data) << "while a call is being enqueued";
  EXPECT_EQ(arena.bytes(), 3000u) << "beyond the limit";
  arena.GiveBack(segment, first.get());
  arena.GiveBack(other, second);
  EXPECT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
  // The first stream's work still runs. The next call of the first stream runs after that work, so
  // it gets the same segment. Other streams get a free segment.
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(arena.BorrowAssured(Owner(0, 1), 1000, first.get()).data, segment.data);
    arena.GiveBack(segment, first.get());
    EXPECT_EQ(arena.BorrowAssured(Owner(0, 3), 1000, second).data, other.data);
    arena.GiveBack(other, second);
  }
  EXPECT_EQ(arena.bytes(), 3000u);
  first.LetGo();
  EXPECT_EQ(cuStreamDestroy(second), CUDA_SUCCESS);
}

TEST_F(ArenaTest, WhereTheDeviceHasNoMoreAStreamWaitsForWhatIsAssured) {
  Arena arena(*cuda::GetDriver(), context, 2000);
  ASSERT_TRUE(arena.Assure(1000));
  HeldStream first;
  CUstream second;
  ASSERT_EQ(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  const Arena::Segment segment = arena.BorrowAssured(Owner(0, 1), 1000, first.get());
  hostgpuInjectFault("alloc", 1);
  EXPECT_EQ(arena.BorrowAssured(Owner(0, 2), 1000, second).data, nullptr) << "not enqueued yet";
  arena.GiveBack(segment, first.get());
  hostgpuInjectFault("alloc", 1);
  EXPECT_EQ(arena.BorrowAssured(Owner(0, 2), 1000, second).data, segment.data);
  hostgpuInjectFault("alloc", 0);
  arena.GiveBack(segment, second);
  EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  first.LetGo();
  EXPECT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(second), CUDA_SUCCESS);
}

TEST_F(ArenaTest, EveryCaptureHasWhatIsAssured) {
  Arena arena(*cuda::GetDriver(), context, 3000);
  ASSERT_TRUE(arena.Assure(1000));
  std::set<void*> segments;
  for (const uint64_t capture : {1, 2, 3, 4}) {
    const Arena::Segment segment = arena.TakeAssuredForCapture({capture}, Owner(0, 1), 900);
    EXPECT_TRUE(segments.insert(segment.data).second);
    EXPECT_EQ(arena.TakeAssuredForCapture({capture}, Owner(0, 1), 800).data, segment.data);
  }
  EXPECT_FALSE(segments.contains(nullptr));
  EXPECT_FALSE(segments.contains(arena.BorrowAssured(Owner(0, 1), 1000, nullptr).data));
  EXPECT_GT(arena.bytes(), 3000u) << "a capture would fail without";
  EXPECT_EQ(arena.left(), 0u);
}

TEST_F(ArenaTest, WhatACaptureTookIsReplacedOutside) {
  Arena arena(*cuda::GetDriver(), context, 3000);
  ASSERT_TRUE(arena.Assure(1000));
  ASSERT_NE(arena.TakeAssuredForCapture({1}, Owner(0, 1), 1000).data, nullptr);
  EXPECT_EQ(arena.bytes(), 2000u) << "nothing is allocated inside";
  EXPECT_TRUE(arena.Assure(1000));
  EXPECT_EQ(arena.bytes(), 3000u);
  ASSERT_NE(arena.TakeAssuredForCapture({2}, Owner(0, 1), 1000).data, nullptr);
  EXPECT_TRUE(arena.Assure(1000)) << "calls have theirs";
  EXPECT_EQ(arena.bytes(), 3000u) << "no room";
}

TEST_F(ArenaTest, CapturesAfterEachOtherTakeNoMoreThanOne) {
  Arena arena(*cuda::GetDriver(), context, 3000);
  for (size_t bytes = 900; bytes < 1000; bytes += 10) {
    EXPECT_TRUE(arena.Assure(bytes));
    {
      const CapturedGraph graph;
      EXPECT_NE(arena.TakeAssuredForCapture(graph.capture(), Owner(0, 1), bytes).data, nullptr);
    }
    EXPECT_LE(arena.bytes(), 3000u) << bytes;
  }
}

TEST_F(ArenaTest, WhatGraphsTookBeyondTheLimitIsFreedBehindThem) {
  Arena arena(*cuda::GetDriver(), context, 2000);
  ASSERT_TRUE(arena.Assure(1000));
  {
    const CapturedGraph graph, other;
    EXPECT_NE(arena.TakeAssuredForCapture(graph.capture(), Owner(0, 1), 1000).data, nullptr);
    EXPECT_NE(arena.TakeAssuredForCapture(other.capture(), Owner(0, 1), 1000).data, nullptr);
    EXPECT_EQ(arena.bytes(), 3000u);
    EXPECT_EQ(arena.Available(Owner(0, 1)), 0u);
  }
  EXPECT_EQ(arena.Available(Owner(0, 1)), 1000u);
  EXPECT_EQ(arena.bytes(), 1000u);
}

TEST_F(ArenaTest, WhatCannotBeAssuredChangesNothing) {
  for (int failing = 1; failing <= 3; ++failing) {
    SCOPED_TRACE(failing);
    Arena arena(*cuda::GetDriver(), context, kLimit);
    ASSERT_TRUE(arena.Assure(1000));
    hostgpuInjectFault("alloc", failing);
    EXPECT_EQ(arena.Assure(3000), failing > 1);
    hostgpuInjectFault("alloc", 0);
    EXPECT_EQ(arena.assured_bytes(), failing > 1 ? 3000u : 1000u);
    EXPECT_EQ(arena.set_aside_bytes(), failing == 1 ? 2000u : failing == 2 ? 3000u : 6000u);
    EXPECT_NE(arena.BorrowAssured(Owner(0, 1), arena.assured_bytes(), nullptr).data, nullptr);
  }
}

}  // namespace
}  // namespace ucudnn::interposer
