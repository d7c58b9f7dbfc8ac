// Tests failures between ranks. Each becomes an error of the communicator within about a second,
// and nothing hangs. Memory into which nothing was received is unchanged.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "tests/unit/host/nccl/processes.h"

namespace hostgpu::nccl::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kSoon{5};  // allows "about a second" on a busy machine

constexpr size_t kNumbers = 4096;
constexpr int kUntouched = 77;

TEST(Failures, OtherByteCountsFailBothSides) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> array(kNumbers, rank.rank == 0 ? 1 : kUntouched);
    const size_t count = rank.rank == 0 ? kNumbers - 1 : kNumbers;
    EXPECT_NCCL(rank.rank == 0 ? ncclSend(array.data(), count, ncclInt, 1, rank.comm, rank.stream)
                               : ncclRecv(array.data(), count, ncclInt, 0, rank.comm, rank.stream));
    const std::vector<int> after = array.Read(rank.stream);
    EXPECT_EQ(rank.AsyncError(), ncclInvalidUsage);
    if (rank.rank == 1) {
      EXPECT_EQ(after, std::vector<int>(kNumbers, kUntouched));
    }
    EXPECT_EQ(rank.Send(array, 1 - rank.rank), ncclInvalidUsage) << "failed for good";
  });
}

TEST(Failures, OtherCollectivesFailAllRanks) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> from(kNumbers, 1), to(kNumbers, kUntouched);
    EXPECT_NCCL(ncclAllReduce(from.data(), to.data(), kNumbers, ncclInt,
                              rank.rank == 0 ? ncclSum : ncclMax, rank.comm, rank.stream));
    EXPECT_EQ(to.Read(rank.stream), std::vector<int>(kNumbers, kUntouched));
    EXPECT_NE(rank.AsyncError(), ncclSuccess);
  });
}

TEST(Failures, AbortReleasesAStreamThatWaits) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> array(kNumbers, kUntouched);
    if (rank.rank == 1) {
      std::this_thread::sleep_for(4 * kMoment);
      EXPECT_EQ(rank.AsyncError(), ncclSuccess) << "nothing is asked of it: nothing fails";
      return;
    }
    EXPECT_NCCL(rank.Receive(array, 1));
    EXPECT_NCCL(rank.Sum(array));
    std::thread other([&] {
      std::this_thread::sleep_for(kMoment);
      EXPECT_NCCL(ncclCommAbort(rank.comm));
    });
    const auto begin = Clock::now();
    EXPECT_EQ(array.Read(rank.stream), std::vector<int>(kNumbers, kUntouched));
    EXPECT_LT(Clock::now() - begin, kSoon);
    other.join();
    EXPECT_EQ(ncclCommAbort(rank.comm), ncclInvalidArgument) << "it is gone";
    rank.comm = nullptr;
  });
}

// Rank 2 aborts, and never takes part in the collective that ranks 0 and 1 have begun.
TEST(Failures, AnAbortedRankFailsThoseThatNeedIt) {
  WithRanks(3, [](Rank& rank) {
    const Array<int> array(kNumbers, kUntouched);
    if (rank.rank == 2) {
      std::this_thread::sleep_for(kMoment);
      EXPECT_NCCL(ncclCommAbort(rank.comm));
      rank.comm = nullptr;
      return;
    }
    EXPECT_NCCL(rank.Sum(array));
    EXPECT_EQ(array.Read(rank.stream), std::vector<int>(kNumbers, kUntouched));
    EXPECT_EQ(rank.AsyncError(), ncclRemoteError);
  });
}

TEST(Failures, ADestroyedRankFailsThoseThatNeedIt) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> array(kNumbers, kUntouched);
    if (rank.rank == 1) return;
    EXPECT_NCCL(rank.Receive(array, 1));
    EXPECT_EQ(array.Read(rank.stream), std::vector<int>(kNumbers, kUntouched));
    EXPECT_EQ(rank.AsyncError(), ncclRemoteError);
  });
}

// Kills this process after `moment`, as a crash would.
void DieSoon(std::chrono::milliseconds moment) {
  std::thread([moment] {
    std::this_thread::sleep_for(moment);
    raise(SIGKILL);
  }).detach();
}

// Rank 1 dies while rank 0 waits in a receive. `part.argument` says when rank 1 dies: before any
// message, after a message from rank 0, or in a collective that only rank 1 has called.
int Survive(Part& part) {
  Rank& rank = part.rank;
  ROLE_CHECK(ncclCommInitRank(&rank.comm, rank.ranks, part.id, rank.rank) == ncclSuccess);
  const Array<int> a(kNumbers, 1), b(kNumbers, kUntouched);
  if (part.argument == "after a message") {
    ROLE_CHECK(rank.Pass(a) == ncclSuccess);
    rank.Synchronize();
  }
  if (rank.rank == 1) {
    DieSoon(kMoment);
    if (part.argument == "in a collective") {
      ROLE_CHECK(ncclAllGather(a.data(), a.data(), 1, ncclInt, rank.comm, rank.stream) ==
                 ncclSuccess);
    }
    for (;;) std::this_thread::sleep_for(kSoon);
  }
  ROLE_CHECK(rank.Receive(b, 1) == ncclSuccess);
  const auto begin = Clock::now();
  ROLE_CHECK(b.Read(rank.stream) == std::vector<int>(kNumbers, kUntouched));
  ROLE_CHECK(Clock::now() - begin < kSoon);
  ROLE_CHECK(rank.AsyncError() == ncclRemoteError);
  ROLE_CHECK(rank.Send(a, 1) == ncclRemoteError);
  ROLE_CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
  return 0;
}
const NamedRole survive("survive", Survive);

TEST(Failures, AKilledProcessIsMissed) {
  for (const char* when : {"at once", "after a message", "in a collective"}) {
    EXPECT_EQ(RunRanks("survive", 2, when), (std::vector<int>{0, -SIGKILL})) << when;
  }
}

// Rank 1 dies `part.argument` milliseconds after the beginning of an endless exchange. Rank 0 must
// have received the array of that moment either completely or not at all.
int Exchange(Part& part) {
  Rank& rank = part.rank;
  ROLE_CHECK(ncclCommInitRank(&rank.comm, rank.ranks, part.id, rank.rank) == ncclSuccess);
  constexpr size_t kLarge = 1 << 20;
  const Array<int> to(kLarge, kUntouched);
  const int peer = 1 - rank.rank;
  if (rank.rank == 1) DieSoon(std::chrono::milliseconds(std::stoi(part.argument)));
  for (int round = 0;; ++round) {
    const Array<int> from(kLarge, round);
    ROLE_CHECK(cudaMemsetAsync(to.data(), 0xee, to.bytes(), rank.stream) == cudaSuccess);
    ncclResult_t called = ncclGroupStart();
    for (const bool sends : {true, false}) {
      const ncclResult_t one = sends ? rank.Send(from, peer) : rank.Receive(to, peer);
      if (called == ncclSuccess) called = one;
    }
    if (const ncclResult_t ended = ncclGroupEnd(); called == ncclSuccess) called = ended;
    const std::vector<int> got = to.Read(rank.stream);
    const bool whole = got == std::vector<int>(kLarge, round);
    ROLE_CHECK(whole || got == std::vector<int>(kLarge, static_cast<int>(0xeeeeeeee)));
    if (rank.AsyncError() != ncclSuccess) {
      ROLE_CHECK(rank.AsyncError() == ncclRemoteError);
      ROLE_CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
      return 0;
    }
    ROLE_CHECK(whole && called == ncclSuccess);
  }
}
const NamedRole exchange("exchange", Exchange);

TEST(Failures, WhatIsReceivedFromAKilledProcessIsWholeOrUntouched) {
  for (const char* moment_ms : {"50", "87", "131"}) {
    EXPECT_EQ(RunRanks("exchange", 2, moment_ms), (std::vector<int>{0, -SIGKILL})) << moment_ms;
  }
}

int DieWhileItIsMade(Part& part) {
  DieSoon(4 * kMoment);
  ROLE_CHECK(ncclCommInitRank(&part.rank.comm, part.rank.ranks, part.id, part.rank.rank) !=
             ncclSuccess);
  return 0;
}
const NamedRole die_while_it_is_made("die while it is made", DieWhileItIsMade);

TEST(Failures, AProcessKilledWhileTheCommunicatorIsMadeFailsTheOthers) {
  const ncclUniqueId id = NewId();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Rank rank{0, 3, nullptr, nullptr};
  EXPECT_CUDA(cudaSetDevice(0));
  EXPECT_EQ(ncclCommInitRankConfig(&rank.comm, 3, id, 0, &config), ncclInProgress);
  // The death of a process that has not yet joined the communicator is not noticed, so the test
  // starts further victims until one death is noticed.
  for (int victim = 0; victim < 20 && rank.AsyncError() == ncclInProgress; ++victim) {
    Process({"die while it is made", 1, 3}, id).Wait();
    for (int look = 0; look < 10 && rank.AsyncError() == ncclInProgress; ++look) {
      std::this_thread::sleep_for(kMoment);
    }
  }
  EXPECT_EQ(rank.AsyncError(), ncclRemoteError);
  EXPECT_NCCL(ncclCommAbort(rank.comm));
}

TEST(Failures, ArgumentsAreChecked) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> array(16, 0);
    int on_host[16] = {};
    const auto all_reduce = [&](const void* from, void* to, size_t count, int type, int op) {
      return ncclAllReduce(from, to, count, static_cast<ncclDataType_t>(type),
                           static_cast<ncclRedOp_t>(op), rank.comm, rank.stream);
    };
    EXPECT_EQ(all_reduce(array.data(), array.data(), 17, ncclInt, ncclSum), ncclInvalidArgument)
        << "beyond the buffer";
    EXPECT_EQ(all_reduce(on_host, array.data(), 16, ncclInt, ncclSum), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(array.data(), nullptr, 16, ncclInt, ncclSum), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(array.data(), array.data(), SIZE_MAX / 2, ncclInt, ncclSum),
              ncclInvalidArgument);
    EXPECT_EQ(all_reduce(array.data(), array.data(), 1, ncclNumTypes, ncclSum),
              ncclInvalidArgument);
    EXPECT_EQ(all_reduce(array.data(), array.data(), 1, ncclInt, ncclNumOps), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(array.data(), array.data(), 1, ncclFloat8e4m3, ncclSum),
              ncclInvalidArgument);
    EXPECT_EQ(ncclSend(array.data(), 1, ncclInt, 2, rank.comm, rank.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclRecv(array.data(), 1, ncclInt, -1, rank.comm, rank.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclBroadcast(array.data(), array.data(), 1, ncclInt, 2, rank.comm, rank.stream),
              ncclInvalidArgument);
    EXPECT_EQ(ncclSend(array.data(), 1, ncclInt, 0, nullptr, rank.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    EXPECT_EQ(rank.AsyncError(), ncclSuccess);
    EXPECT_STRNE(ncclGetLastError(rank.comm), "");
  });
}

TEST(Failures, OfOneCallAreThoseOfItsGroup) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> array(kNumbers, 0);
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(rank.Receive(array, 1 - rank.rank));
    EXPECT_EQ(rank.Send(array, 2), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_EQ(cudaStreamQuery(rank.stream), cudaSuccess) << "nothing of it was enqueued";
  });
}

}  // namespace
}  // namespace hostgpu::nccl::testing
