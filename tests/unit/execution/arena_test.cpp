// The library's own workspace, on the stand-in's driver.
#include "execution/arena.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace ucudnn::execution {
namespace {

class ArenaTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    before = FreeBytes();
  }
  void TearDown() override {
    EXPECT_EQ(FreeBytes(), before);
    cuCtxSetCurrent(nullptr);
    cuDevicePrimaryCtxRelease(0);
  }
  static size_t FreeBytes() {
    size_t free = 0, total = 0;
    EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
    return free;
  }
  static CUstream Stream(uintptr_t number) { return reinterpret_cast<CUstream>(number); }
  static void* Take(Arena& arena, const ArenaUser& user, size_t bytes) {
    const auto segment = arena.Take(user, bytes);
    EXPECT_TRUE(segment.ok()) << segment.message();
    EXPECT_GE(segment->bytes, bytes);
    return segment->data;
  }

  static constexpr size_t kLimit = 1 << 20;
  CUcontext context = nullptr;
  size_t before = 0;
  const char handles[2] = {};
};

TEST_F(ArenaTest, EveryHandleAndStreamHasItsOwnSegment) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  std::set<void*> segments;
  for (const char& handle : handles) {
    for (const uintptr_t stream : {0, 0x1000, 0x2000}) {
      void* const data = Take(arena, {&handle, Stream(stream)}, 1000);
      EXPECT_TRUE(segments.insert(data).second);
      EXPECT_EQ(Take(arena, {&handle, Stream(stream)}, 500), data);
    }
  }
  EXPECT_EQ(arena.bytes(), 6000u);
}

TEST_F(ArenaTest, AStreamOfEachThreadIsAnotherInEach) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  void* const here = Take(arena, {&handles[0], CU_STREAM_PER_THREAD}, 1000);
  void* there = here;
  std::thread([&] { there = Take(arena, {&handles[0], CU_STREAM_PER_THREAD}, 1000); }).join();
  EXPECT_NE(there, here);
}

TEST_F(ArenaTest, GrowsWithoutTakingAwayWhatMayBeInUse) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  const ArenaUser user(&handles[0], nullptr);
  void* const small = Take(arena, user, 1000);
  void* const large = Take(arena, user, 2000);
  EXPECT_NE(large, small);
  EXPECT_EQ(cuMemsetD8(reinterpret_cast<CUdeviceptr>(small), 1, 1000), CUDA_SUCCESS);
  EXPECT_EQ(Take(arena, user, 2000), large);
  EXPECT_EQ(arena.bytes(), 3000u);
}

TEST_F(ArenaTest, NeverExceedsItsLimit) {
  Arena arena(*cuda::GetDriver(), context, 3000);
  Take(arena, {&handles[0], Stream(0x1000)}, 2000);
  EXPECT_FALSE(arena.Take({&handles[0], Stream(0x2000)}, 1001).ok());
  EXPECT_FALSE(arena.ReserveForCapture(1001).ok());
  Take(arena, {&handles[0], Stream(0x2000)}, 1000);
  EXPECT_EQ(arena.bytes(), 3000u);
}

TEST_F(ArenaTest, LacksWhatTheDeviceLacks) {
  Arena arena(*cuda::GetDriver(), context, ~size_t{0});
  EXPECT_FALSE(arena.Take({&handles[0], nullptr}, size_t{1} << 50).ok());
  EXPECT_EQ(arena.bytes(), 0u);
}

TEST_F(ArenaTest, IsFreedWithTheLastHandle) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  for (const char& handle : handles) Take(arena, {&handle, nullptr}, 1000);
  arena.Release(&handles[0]);
  arena.Release(&handles[0]);
  EXPECT_EQ(arena.bytes(), 2000u);
  arena.Release(&handles[1]);
  EXPECT_EQ(arena.bytes(), 0u);
  EXPECT_EQ(FreeBytes(), before);
}

TEST_F(ArenaTest, WhatACaptureTookStaysItsOwn) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  EXPECT_EQ(arena.TakeForCapture(1).data, nullptr) << "nothing is allocated inside";
  void* const of_stream = Take(arena, {&handles[0], nullptr}, 1000);
  EXPECT_EQ(arena.TakeForCapture(1).data, nullptr) << "what calls use is not lent";
  ASSERT_TRUE(arena.ReserveForCapture(1000).ok());
  ASSERT_TRUE(arena.ReserveForCapture(500).ok()) << "one is ready";
  EXPECT_EQ(arena.bytes(), 2000u);
  const Arena::Segment captured = arena.TakeForCapture(500);
  EXPECT_NE(captured.data, nullptr);
  EXPECT_NE(captured.data, of_stream);
  EXPECT_EQ(arena.TakeForCapture(500).data, nullptr);
  arena.Release(&handles[0]);
  EXPECT_EQ(arena.bytes(), 1000u);
  EXPECT_EQ(cuMemsetD8(reinterpret_cast<CUdeviceptr>(captured.data), 1, captured.bytes),
            CUDA_SUCCESS);
}

}  // namespace
}  // namespace ucudnn::execution
