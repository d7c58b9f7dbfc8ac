// The library's own workspace, on the stand-in's driver.
#include "execution/arena.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace ucudnn::execution {
namespace {

using Readiness = Arena::Readiness;

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
  ArenaOwner Owner(int handle, uint64_t stream, int kernel = -1) const {
    return {&handles[handle], stream, {}, kernel};
  }

  static constexpr size_t kLimit = 1 << 20;
  CUcontext context = nullptr;
  size_t before = 0;
  const char handles[2] = {};
};

// A stream whose work waits until it is let go.
class HeldStream {
 public:
  HeldStream() {
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    const auto wait = [](void* held) {
      while (static_cast<std::atomic<bool>*>(held)->load()) std::this_thread::yield();
    };
    EXPECT_EQ(cuLaunchHostFunc(stream_, wait, &held_), CUDA_SUCCESS);
  }
  ~HeldStream() {
    LetGo();
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
  }
  void LetGo() {
    held_ = false;
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }
  CUstream get() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
  std::atomic<bool> held_ = true;
};

TEST_F(ArenaTest, EveryOwnerHasItsOwnSegment) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  arena.Fix();
  std::set<void*> segments;
  for (const int handle : {0, 1}) {
    for (const uint64_t stream : {1, 2}) {
      for (const int kernel : {-1, 0, 1}) {
        const ArenaOwner owner = Owner(handle, stream, kernel);
        void* const data = arena.Take(owner, 1000).data;
        EXPECT_TRUE(segments.insert(data).second);
        EXPECT_EQ(arena.Take(owner, 500).data, data);
      }
    }
  }
  EXPECT_EQ(arena.bytes(), 12000u);
}

TEST_F(ArenaTest, AStreamIsKnownByItsId) {
  const cuda::Driver& driver = *cuda::GetDriver();
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  const auto own = OwnerOf(driver, &handles[0], stream);
  ASSERT_TRUE(own);
  EXPECT_EQ(OwnerOf(driver, &handles[0], stream), own);
  EXPECT_NE(OwnerOf(driver, &handles[1], stream), own);
  EXPECT_NE(OwnerOf(driver, &handles[0], nullptr), own);
  ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  // Whatever its address.
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  EXPECT_NE(OwnerOf(driver, &handles[0], stream), own);
  ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_FALSE(OwnerOf(driver, &handles[0], stream)) << "destroyed";
}

TEST_F(ArenaTest, AStreamOfEachThreadIsAnotherInEach) {
  const cuda::Driver& driver = *cuda::GetDriver();
  const auto here = OwnerOf(driver, &handles[0], CU_STREAM_PER_THREAD);
  ASSERT_TRUE(here);
  std::optional<ArenaOwner> there;
  std::thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    there = OwnerOf(driver, &handles[0], CU_STREAM_PER_THREAD);
  }).join();
  ASSERT_TRUE(there);
  EXPECT_NE(there, here);
}

TEST_F(ArenaTest, NeverExceedsItsLimit) {
  Arena arena(*cuda::GetDriver(), context, 3000);
  arena.Fix();
  EXPECT_EQ(arena.Available(Owner(0, 1)), 3000u);
  EXPECT_NE(arena.Take(Owner(0, 1), 2000).data, nullptr);
  EXPECT_EQ(arena.Take(Owner(0, 2), 1001).data, nullptr);
  EXPECT_FALSE(arena.ReserveForCapture(1001));
  EXPECT_EQ(arena.Available(Owner(0, 1)), 2000u) << "its own";
  EXPECT_EQ(arena.Available(Owner(0, 2)), 1000u) << "what is left";
  EXPECT_NE(arena.Take(Owner(0, 2), 1000).data, nullptr);
  EXPECT_EQ(arena.bytes(), 3000u);
}

TEST_F(ArenaTest, LacksWhatTheDeviceLacks) {
  Arena arena(*cuda::GetDriver(), context, size_t{1} << 60);
  EXPECT_EQ(arena.Borrow(Owner(0, 1), size_t{1} << 50).data, nullptr);
  EXPECT_EQ(arena.bytes(), 0u);
  EXPECT_TRUE(arena.short_of_memory());
  EXPECT_EQ(arena.Available(Owner(0, 1)), 0u) << "it is not tried again";
}

TEST_F(ArenaTest, WhatWasLentIsGivenToOthersOnceItsWorkIsDone) {
  HeldStream stream;
  Arena arena(*cuda::GetDriver(), context, 1000);
  const Arena::Segment lent = arena.Borrow(Owner(0, 1), 600);
  ASSERT_NE(lent.data, nullptr);
  EXPECT_EQ(arena.Available(Owner(0, 2)), 400u);
  EXPECT_EQ(arena.Borrow(Owner(0, 2), 500).data, nullptr) << "the call is under way";
  arena.GiveBack(lent, stream.get());
  EXPECT_EQ(arena.Borrow(Owner(0, 2), 500).data, nullptr) << "its work is";
  EXPECT_EQ(arena.Borrow(Owner(0, 1), 600).data, lent.data) << "which it follows on its stream";
  arena.GiveBack(lent, stream.get());
  stream.LetGo();
  EXPECT_EQ(arena.Available(Owner(0, 2)), 1000u);
  EXPECT_NE(arena.Borrow(Owner(0, 2), 500).data, nullptr);
  EXPECT_EQ(arena.bytes(), 500u);
}

TEST_F(ArenaTest, PreparesWhatIsNeededOnceTheRestIsIdle) {
  HeldStream stream;
  Arena arena(*cuda::GetDriver(), context, 1000);
  const Arena::Segment lent = arena.Borrow(Owner(0, 1), 600);
  const Arena::Need needs[] = {{Owner(0, 1), 300}, {Owner(0, 2), 700}};
  EXPECT_EQ(arena.Prepare(needs), Readiness::kBusy);
  arena.GiveBack(lent, stream.get());
  EXPECT_EQ(arena.Prepare(needs), Readiness::kBusy);
  EXPECT_EQ(arena.bytes(), 600u);
  stream.LetGo();
  EXPECT_EQ(arena.Prepare(needs), Readiness::kReady);
  EXPECT_EQ(arena.bytes(), 1000u);
  EXPECT_EQ(arena.Borrow(Owner(0, 3), 1).data, nullptr) << "what is prepared is not given away";
  arena.Fix();
  EXPECT_EQ(arena.Borrow(Owner(0, 1), 300).data, nullptr) << "nothing is lent any more";
  for (const Arena::Need& need : needs) {
    EXPECT_EQ(arena.Take(need.owner, need.bytes).bytes, need.bytes);
  }
  EXPECT_EQ(arena.bytes(), 1000u);
}

TEST_F(ArenaTest, PreparesAllOrNothing) {
  Arena arena(*cuda::GetDriver(), context, size_t{1} << 60);
  const Arena::Need needs[] = {{Owner(0, 1), 1000}, {Owner(0, 2), size_t{1} << 50}};
  EXPECT_EQ(arena.Prepare(needs), Readiness::kShort);
  EXPECT_EQ(arena.bytes(), 0u);
  EXPECT_EQ(arena.Prepare(std::span(needs, 1)), Readiness::kReady) << "less may be tried";
}

TEST_F(ArenaTest, IsFreedWithTheLastHandle) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  arena.Fix();
  for (const int handle : {0, 1}) arena.Take(Owner(handle, 1), 1000);
  arena.Release(&handles[0]);
  arena.Release(&handles[0]);
  EXPECT_EQ(arena.bytes(), 2000u);
  arena.Release(&handles[1]);
  EXPECT_EQ(arena.bytes(), 0u);
  EXPECT_EQ(FreeBytes(), before);
}

TEST_F(ArenaTest, WhatAHandleLeftServesTheNextOneOnItsStream) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  arena.Fix();
  const char third = 0;
  arena.Take(Owner(1, 9), 10);
  void* const left = arena.Take(Owner(0, 1), 1000).data;
  arena.Release(&handles[0]);
  EXPECT_NE(arena.Take({&third, 2}, 1000).data, left) << "another stream's work may be ahead";
  EXPECT_EQ(arena.Take({&third, 1}, 1000).data, left);
}

TEST_F(ArenaTest, WhatACaptureTookStaysItsOwn) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  arena.Fix();
  const ArenaOwner owner = Owner(0, 1), other = Owner(0, 2);
  EXPECT_EQ(arena.TakeForCapture(7, owner, 1).data, nullptr) << "nothing is allocated inside";
  void* const of_stream = arena.Take(owner, 1000).data;
  EXPECT_EQ(arena.TakeForCapture(7, owner, 1).data, nullptr) << "what calls use is not lent";
  ASSERT_TRUE(arena.ReserveForCapture(1000));
  ASSERT_TRUE(arena.ReserveForCapture(500)) << "one is ready";
  EXPECT_EQ(arena.bytes(), 2000u);
  const Arena::Segment captured = arena.TakeForCapture(7, owner, 500);
  EXPECT_NE(captured.data, nullptr);
  EXPECT_NE(captured.data, of_stream);
  EXPECT_EQ(arena.TakeForCapture(7, owner, 900).data, captured.data) << "one call after the other";
  EXPECT_EQ(arena.TakeForCapture(7, other, 500).data, nullptr) << "a branch of the graph";
  EXPECT_EQ(arena.TakeForCapture(8, owner, 500).data, nullptr) << "another graph";
  arena.Release(&handles[0]);
  EXPECT_EQ(arena.bytes(), 1000u);
  EXPECT_EQ(cuMemsetD8(reinterpret_cast<CUdeviceptr>(captured.data), 1, captured.bytes),
            CUDA_SUCCESS);
}

}  // namespace
}  // namespace ucudnn::execution
