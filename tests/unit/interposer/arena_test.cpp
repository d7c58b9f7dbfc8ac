// Tests the arena, which holds ucudnn's own workspace, on the stand-in's driver.
#include "interposer/budget/arena.h"

#include <gtest/gtest.h>

#include <set>

#include "arena_setting.h"
#include "shim/host/hostgpu.h"
#include "tests/support/becomes.h"

namespace ucudnn::interposer {
namespace {

using test::Becomes;
using test::FreeBytes;
using Readiness = Arena::Readiness;

TEST_F(ArenaTest, EveryOwnerHasItsOwnSegment) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  arena.Fix();
  std::set<void*> segments;
  for (const int handle : {0, 1}) {
    for (const uint64_t stream : {1, 2}) {
      for (const int kernel : {-1, 0, 1}) {
        const ArenaOwner owner = Owner(handle, stream, kernel);
        void* const data = arena.Take(owner, 1000, nullptr).data;
        EXPECT_TRUE(segments.insert(data).second);
        EXPECT_EQ(arena.Take(owner, 500, nullptr).data, data);
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
  // The new stream is another owner even if it has the address of the destroyed one.
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
  EXPECT_NE(arena.Take(Owner(0, 1), 2000, nullptr).data, nullptr);
  EXPECT_EQ(arena.Take(Owner(0, 2), 1001, nullptr).data, nullptr);
  EXPECT_FALSE(arena.ReserveForCapture(1001));
  EXPECT_EQ(arena.Available(Owner(0, 1)), 3000u) << "with its own";
  EXPECT_EQ(arena.Available(Owner(0, 2)), 1000u) << "what is left";
  EXPECT_NE(arena.Take(Owner(0, 2), 1000, nullptr).data, nullptr);
  EXPECT_EQ(arena.bytes(), 3000u);
}

TEST_F(ArenaTest, LacksWhatTheDeviceLacks) {
  Arena arena(*cuda::GetDriver(), context, size_t{1} << 60);
  EXPECT_EQ(arena.Borrow(Owner(0, 1), size_t{1} << 50).data, nullptr);
  EXPECT_EQ(arena.bytes(), 0u);
  EXPECT_TRUE(arena.short_of_memory());
  EXPECT_EQ(arena.Available(Owner(0, 1)), 0u) << "it is not tried again";
  EXPECT_NE(arena.Borrow(Owner(0, 1), 1000).data, nullptr) << "but less is";
}

TEST_F(ArenaTest, WhatCapturesMayNotHaveOthersMay) {
  Arena arena(*cuda::GetDriver(), context, size_t{1} << 60);
  arena.Fix();
  EXPECT_FALSE(arena.ReserveForCapture(size_t{1} << 50));
  EXPECT_FALSE(arena.short_of_memory());
  EXPECT_NE(arena.Take(Owner(0, 1), 1000, nullptr).data, nullptr);
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
    EXPECT_EQ(arena.Take(need.owner, need.bytes, nullptr).bytes, need.bytes);
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

TEST_F(ArenaTest, PreparesBesideWhatNobodyCanTellTheEndOf) {
  HeldStream stream;
  Arena arena(*cuda::GetDriver(), context, 1000);
  const Arena::Segment lent = arena.Borrow(Owner(0, 1), 600);
  hostgpuInjectFault("event", 1);
  arena.GiveBack(lent, stream.get());
  hostgpuInjectFault("event", 0);
  EXPECT_EQ(arena.lost_bytes(), 600u);
  EXPECT_EQ(arena.Available(Owner(0, 2)), 400u);
  const Arena::Need beside[] = {{Owner(0, 2), 400}};
  EXPECT_EQ(arena.Prepare(beside), Readiness::kReady);
  EXPECT_EQ(arena.bytes(), 1000u);
  // The same segment is lent again. This time GiveBack records an event without a fault. The event
  // also shows when the stream's earlier work has ended.
  ASSERT_EQ(arena.Borrow(Owner(0, 1), 600).data, lent.data);
  arena.GiveBack(lent, stream.get());
  EXPECT_EQ(arena.lost_bytes(), 0u);
  stream.LetGo();
  EXPECT_EQ(arena.Prepare(beside), Readiness::kReady);
  EXPECT_EQ(arena.bytes(), 400u);
}

// The device may wait for work that this thread has yet to enqueue. An arena that waited for the
// device would then never return.
TEST_F(ArenaTest, NeverWaitsForTheDevice) {
  HeldStream busy, idle;
  idle.LetGo();
  {
    Arena arena(*cuda::GetDriver(), context, 1000);
    arena.GiveBack(arena.Borrow(Owner(0, 1), 600), idle.get());
    const Arena::Need need = {Owner(0, 2), 700};
    EXPECT_TRUE(Becomes([&] { return arena.Prepare({&need, 1}) != Readiness::kBusy; }));
    EXPECT_EQ(arena.bytes(), 700u);
    arena.Fix();
    EXPECT_NE(arena.Take(Owner(0, 3), 100, idle.get()).data, nullptr);
    EXPECT_NE(arena.Take(Owner(0, 3), 200, idle.get()).data, nullptr);
    EXPECT_TRUE(Becomes([&] { return arena.Take(Owner(0, 3), 300, idle.get()).data != nullptr; }));
    EXPECT_EQ(cuStreamQuery(busy.get()), CUDA_ERROR_NOT_READY);
  }
  EXPECT_EQ(cuStreamQuery(busy.get()), CUDA_ERROR_NOT_READY);
}

TEST_F(ArenaTest, WithoutPoolsNothingIsFreedBeforeTheDeviceWasWaitedFor) {
  Arena arena(*cuda::GetDriver(), context, 1000);
  hostgpuInjectFault("pool", 1);
  EXPECT_EQ(arena.Borrow(Owner(0, 1), 600).data, nullptr) << "nothing is lent";
  hostgpuInjectFault("pool", 0);
  const Arena::Need first = {Owner(0, 1), 600}, second = {Owner(0, 1), 300};
  EXPECT_EQ(arena.Prepare({&first, 1}), Readiness::kReady);
  EXPECT_EQ(arena.Prepare({&second, 1}), Readiness::kReady);
  EXPECT_EQ(arena.bytes(), 900u);
  EXPECT_EQ(arena.Prepare({&first, 1}), Readiness::kReady);
  EXPECT_EQ(arena.bytes(), 900u);
  arena.Fix();
  arena.Waited(arena.Leave(&handles[0]));
  EXPECT_EQ(arena.bytes(), 0u);
}

TEST_F(ArenaTest, IsFreedWithTheLastHandle) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  arena.Fix();
  for (const int handle : {0, 1}) arena.Take(Owner(handle, 1), 1000, nullptr);
  EXPECT_TRUE(arena.ReserveForCapture(500));
  const uint64_t leave = arena.Leave(&handles[0]);
  EXPECT_EQ(arena.bytes(), 2500u) << "its work may be under way";
  arena.Waited(leave);
  arena.Waited(arena.Leave(&handles[0]));
  EXPECT_EQ(arena.bytes(), 1500u);
  arena.Waited(arena.Leave(&handles[1]));
  EXPECT_EQ(arena.bytes(), 0u) << "what no capture used, too";
  EXPECT_EQ(FreeBytes(), before);
}

// Waited(first) reports a wait for the device that began before the second handle left the arena.
// So the second handle's work may still run.
TEST_F(ArenaTest, OnlyWhatWasLeftBeforeTheDeviceWasWaitedForIsFreed) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  arena.Fix();
  for (const int handle : {0, 1}) arena.Take(Owner(handle, 1), 1000, nullptr);
  const uint64_t first = arena.Leave(&handles[0]), second = arena.Leave(&handles[1]);
  arena.Waited(first);
  EXPECT_EQ(arena.bytes(), 1000u);
  arena.Waited(second);
  EXPECT_EQ(arena.bytes(), 0u);
}

TEST_F(ArenaTest, HandlesThatComeAndGoNeverRunItDry) {
  Arena arena(*cuda::GetDriver(), context, 3000);
  arena.Fix();
  ASSERT_NE(arena.Take(Owner(0, 1), 1000, nullptr).data, nullptr);
  for (uint64_t stream = 2; stream < 50; ++stream) {
    ASSERT_NE(arena.Take(Owner(1, stream), 1000 + 10 * stream, nullptr).data, nullptr) << stream;
    arena.Waited(arena.Leave(&handles[1]));
  }
  EXPECT_EQ(arena.bytes(), 1000u);
}

TEST_F(ArenaTest, AnOwnerThatTakesMoreGivesUpWhatIsTooSmall) {
  HeldStream stream;
  Arena arena(*cuda::GetDriver(), context, 3000);
  arena.Fix();
  const ArenaOwner owner = Owner(0, 1), other = Owner(1, 2);
  ASSERT_NE(arena.Take(owner, 1000, stream.get()).data, nullptr);
  const uint64_t generation = arena.generation();
  void* const larger = arena.Take(owner, 2000, stream.get()).data;
  ASSERT_NE(larger, nullptr);
  EXPECT_GT(arena.generation(), generation);
  EXPECT_EQ(arena.Take(owner, 500, stream.get()).data, larger);
  EXPECT_EQ(arena.Take(other, 1000, nullptr).data, nullptr) << "its work is under way";
  EXPECT_EQ(arena.bytes(), 3000u);
  stream.LetGo();
  EXPECT_NE(arena.Take(other, 1000, nullptr).data, nullptr);
  EXPECT_EQ(arena.bytes(), 3000u);
}

TEST_F(ArenaTest, SizesThatRiseHaveTheWholeLimitInTheEnd) {
  Arena arena(*cuda::GetDriver(), context, 3000);
  arena.Fix();
  const ArenaOwner owner = Owner(0, 1);
  for (size_t bytes = 100; bytes <= 3000; bytes += 100) {
    EXPECT_EQ(arena.Available(owner), 3000u);
    // The first Take may fail. Once the device's work has ended, the second must succeed.
    for (int call = 0; call < 2 && arena.Take(owner, bytes, nullptr).data == nullptr; ++call) {
      EXPECT_EQ(call, 0) << bytes;
      EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    }
    EXPECT_LE(arena.bytes(), 3000u);
  }
  EXPECT_EQ(arena.bytes(), 3000u);
  EXPECT_EQ(arena.Take(owner, 3001, nullptr).data, nullptr);
  EXPECT_NE(arena.Take(owner, 3000, nullptr).data, nullptr) << "what can never be is no reason";
}

// The calls of a network need different sizes in turn. They are enqueued long before the device
// runs them.
TEST_F(ArenaTest, TheLargestOfSizesInTurnHasItsSegment) {
  HeldStream stream;
  Arena arena(*cuda::GetDriver(), context, 3000);
  arena.Fix();
  const ArenaOwner owner = Owner(0, 1);
  ASSERT_NE(arena.Take(owner, 1000, stream.get()).data, nullptr);
  EXPECT_EQ(arena.Take(owner, 2500, stream.get()).data, nullptr) << "no room yet";
  EXPECT_EQ(arena.Take(owner, 1000, stream.get()).data, nullptr) << "it would be in the way again";
  EXPECT_EQ(arena.bytes(), 1000u);
  stream.LetGo();
  void* const segment = arena.Take(owner, 1000, nullptr).data;
  EXPECT_NE(segment, nullptr);
  EXPECT_EQ(arena.Take(owner, 2500, nullptr).data, segment);
  EXPECT_EQ(arena.bytes(), 2500u);
}

TEST_F(ArenaTest, WhatAnotherTookMeanwhileIsNotWaitedFor) {
  Arena arena(*cuda::GetDriver(), context, 3000);
  arena.Fix();
  const ArenaOwner owner = Owner(0, 1), other = Owner(1, 2);
  ASSERT_NE(arena.Take(owner, 1000, nullptr).data, nullptr);
  EXPECT_EQ(arena.Take(owner, 2500, nullptr).data, nullptr);
  ASSERT_NE(arena.Take(other, 2000, nullptr).data, nullptr);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(arena.Take(owner, 1000, nullptr).bytes, 1000u);
}

TEST_F(ArenaTest, WhatWasPreparedIsNotGivenUpForARoomierSegment) {
  Arena arena(*cuda::GetDriver(), context, 3000);
  const Arena::Need need = {Owner(0, 1), 1000};
  ASSERT_EQ(arena.Prepare({&need, 1}), Readiness::kReady);
  arena.Fix();
  EXPECT_EQ(arena.Available(need.owner), 2000u);
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(arena.Take(need.owner, 2500, nullptr).data, nullptr);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
  EXPECT_EQ(arena.bytes(), 1000u);
}

TEST_F(ArenaTest, WhatIsKeptIsNobodys) {
  Arena arena(*cuda::GetDriver(), context, 3000);
  arena.Fix();
  arena.Keep(2000);
  EXPECT_EQ(arena.Available(Owner(0, 1)), 1000u);
  EXPECT_EQ(arena.Take(Owner(0, 1), 1001, nullptr).data, nullptr);
  EXPECT_FALSE(arena.ReserveForCapture(1001));
  arena.Keep(0);
  EXPECT_NE(arena.Take(Owner(0, 1), 3000, nullptr).data, nullptr);
}

TEST_F(ArenaTest, WhatAGraphHadIsTheNextOnesWhereItIsDestroyed) {
  Arena arena(*cuda::GetDriver(), context, 1000);
  arena.Fix();
  ASSERT_TRUE(arena.ReserveForCapture(1000));
  void* of_graph = nullptr;
  {
    const CapturedGraph graph;
    of_graph = arena.TakeForCapture(graph.capture(), Owner(0, 1), 900).data;
    EXPECT_NE(of_graph, nullptr);
    EXPECT_EQ(arena.TakeForCapture({7}, Owner(0, 1), 900).data, nullptr) << "the graph lives";
  }
  {
    const CapturedGraph next;
    EXPECT_EQ(arena.TakeForCapture(next.capture(), Owner(0, 1), 1000).data, of_graph);
    EXPECT_EQ(arena.Available(Owner(0, 1)), 0u);
  }
  EXPECT_EQ(arena.Available(Owner(0, 1)), 1000u) << "calls lack it, and no capture has it";
}

TEST_F(ArenaTest, WhatACaptureTookStaysItsOwn) {
  Arena arena(*cuda::GetDriver(), context, kLimit);
  arena.Fix();
  const ArenaOwner owner = Owner(0, 1), other = Owner(0, 2);
  EXPECT_EQ(arena.TakeForCapture({7}, owner, 1).data, nullptr) << "nothing is allocated inside";
  void* const of_stream = arena.Take(owner, 1000, nullptr).data;
  EXPECT_EQ(arena.TakeForCapture({7}, owner, 1).data, nullptr) << "what calls use is not lent";
  ASSERT_TRUE(arena.ReserveForCapture(1000));
  ASSERT_TRUE(arena.ReserveForCapture(500)) << "one is ready";
  EXPECT_EQ(arena.bytes(), 2000u);
  const Arena::Segment captured = arena.TakeForCapture({7}, owner, 500);
  EXPECT_NE(captured.data, nullptr);
  EXPECT_NE(captured.data, of_stream);
  EXPECT_EQ(arena.TakeForCapture({7}, owner, 900).data, captured.data)
      << "one call after the other";
  EXPECT_EQ(arena.TakeForCapture({7}, other, 500).data, nullptr) << "a branch of the graph";
  EXPECT_EQ(arena.TakeForCapture({8}, owner, 500).data, nullptr) << "another graph";
  arena.Waited(arena.Leave(&handles[0]));
  EXPECT_EQ(arena.bytes(), 1000u);
  EXPECT_EQ(cuMemsetD8(reinterpret_cast<CUdeviceptr>(captured.data), 1, captured.bytes),
            CUDA_SUCCESS);
}

}  // namespace
}  // namespace ucudnn::interposer
