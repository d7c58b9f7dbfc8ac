// ncclCommSplit: colors, keys, ranks without a color, and ranks that are lost meanwhile.
#include <cstdio>
#include <thread>

#include "tests/unit/host/nccl/processes.h"

namespace hostgpu::nccl::testing {
namespace {

// The sum of the parent's ranks over a split's ranks.
int SumOver(ncclComm_t comm, const Rank& rank) {
  const Array<int> array(1, rank.rank);
  EXPECT_NCCL(ncclAllReduce(array.data(), array.data(), 1, ncclInt, ncclSum, comm, rank.stream));
  return array.Read(rank.stream)[0];
}

TEST(Split, ColorsMakeCommunicatorsAndKeysOrderThem) {
  WithRanks(kDevices, [](Rank& rank) {
    ncclComm_t split = nullptr;
    EXPECT_NCCL(ncclCommSplit(rank.comm, rank.rank % 2, -rank.rank, &split, nullptr));
    int count = 0, place = -1;
    EXPECT_NCCL(ncclCommCount(split, &count));
    EXPECT_NCCL(ncclCommUserRank(split, &place));
    EXPECT_EQ(count, rank.rank % 2 ? 2 : 3);
    EXPECT_EQ(place, (rank.rank % 2 ? 3 - rank.rank : 4 - rank.rank) / 2);
    EXPECT_EQ(SumOver(split, rank), rank.rank % 2 ? 1 + 3 : 0 + 2 + 4);
    EXPECT_EQ(SumOver(rank.comm, rank), 10) << "the parent lives on";
    EXPECT_NCCL(ncclCommDestroy(split));
  });
}

TEST(Split, EqualKeysKeepTheOrderOfRanks) {
  WithRanks(4, [](Rank& rank) {
    ncclComm_t split = nullptr;
    EXPECT_NCCL(ncclCommSplit(rank.comm, 3, 5, &split, nullptr));
    int place = -1;
    EXPECT_NCCL(ncclCommUserRank(split, &place));
    EXPECT_EQ(place, rank.rank);
    EXPECT_NCCL(ncclCommDestroy(split));
  });
}

TEST(Split, NoColorIsNoCommunicator) {
  WithRanks(3, [](Rank& rank) {
    ncclComm_t split = rank.comm;
    const int color = rank.rank == 1 ? NCCL_SPLIT_NOCOLOR : 0;
    EXPECT_NCCL(ncclCommSplit(rank.comm, color, 0, &split, nullptr));
    EXPECT_EQ(split == nullptr, rank.rank == 1);
    if (split) {
      EXPECT_EQ(SumOver(split, rank), 2);
    }
    EXPECT_NCCL(ncclCommDestroy(split));
  });
}

TEST(Split, CanBeRepeatedAndNested) {
  WithRanks(4, [](Rank& rank) {
    for (int round = 0; round < 5; ++round) {
      ncclComm_t half = nullptr, quarter = nullptr;
      EXPECT_NCCL(ncclCommSplit(rank.comm, rank.rank / 2, rank.rank, &half, nullptr));
      EXPECT_NCCL(ncclCommSplit(half, rank.rank % 2, 0, &quarter, nullptr));
      EXPECT_EQ(SumOver(half, rank), rank.rank / 2 ? 5 : 1);
      EXPECT_EQ(SumOver(quarter, rank), rank.rank);
      EXPECT_NCCL(ncclCommDestroy(quarter));
      EXPECT_NCCL(ncclCommDestroy(half));
    }
  });
}

TEST(Split, OfOneThreadsRanksIsAGroup) {
  ncclComm_t comms[3], splits[3];
  EXPECT_NCCL(ncclCommInitAll(comms, 3, nullptr));
  EXPECT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_NCCL(ncclCommSplit(comms[rank], rank / 2, 0, &splits[rank], nullptr));
  }
  EXPECT_NCCL(ncclGroupEnd());
  for (int rank = 0; rank < 3; ++rank) {
    int count = 0;
    EXPECT_NCCL(ncclCommCount(splits[rank], &count));
    EXPECT_EQ(count, rank / 2 ? 1 : 2);
  }
  for (const ncclComm_t comm : splits) EXPECT_NCCL(ncclCommDestroy(comm));
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST(Split, WithoutBlockingIsInProgress) {
  WithRanks(2, [](Rank& rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    Rank split = rank;
    EXPECT_EQ(ncclCommSplit(rank.comm, 0, 0, &split.comm, &config), ncclInProgress);
    while (split.AsyncError() == ncclInProgress) std::this_thread::yield();
    EXPECT_EQ(SumOver(split.comm, rank), 1);
    EXPECT_NCCL(ncclCommDestroy(split.comm));
  });
}

TEST(Split, FailsWhereARankIsLost) {
  WithRanks(2, [](Rank& rank) {
    if (rank.rank == 1) return;
    ncclComm_t split = rank.comm;
    EXPECT_EQ(ncclCommSplit(rank.comm, 0, 0, &split, nullptr), ncclRemoteError);
    EXPECT_EQ(split, nullptr);
  });
}

// A group that fails takes a rank's split with it.
TEST(Split, LeftOutByOneRankFailsTheOthers) {
  WithRanks(2, [](Rank& rank) {
    ncclComm_t split = nullptr;
    if (rank.rank == 1) {
      EXPECT_NCCL(ncclGroupStart());
      EXPECT_NCCL(ncclCommSplit(rank.comm, 0, 0, &split, nullptr));
      EXPECT_EQ(ncclCommSplit(rank.comm, -7, 0, &split, nullptr), ncclInvalidArgument);
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
      EXPECT_EQ(rank.AsyncError(), ncclInvalidUsage);
    } else {
      EXPECT_EQ(ncclCommSplit(rank.comm, 0, 0, &split, nullptr), ncclRemoteError);
    }
    EXPECT_EQ(split, nullptr);
  });
}

TEST(Split, ArgumentsAreChecked) {
  WithRanks(1, [](Rank& rank) {
    ncclComm_t split = nullptr;
    EXPECT_EQ(ncclCommSplit(nullptr, 0, 0, &split, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclCommSplit(rank.comm, 0, 0, nullptr, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclCommSplit(rank.comm, -2, 0, &split, nullptr), ncclInvalidArgument);
  });
}

int SplitInHalves(Part& part) {
  Rank& rank = part.rank;
  ROLE_CHECK(ncclCommInitRank(&rank.comm, rank.ranks, part.id, rank.rank) == ncclSuccess);
  ncclComm_t half = nullptr;
  ROLE_CHECK(ncclCommSplit(rank.comm, rank.rank / 2, rank.rank, &half, nullptr) == ncclSuccess);
  ROLE_CHECK(SumOver(half, rank) == (rank.rank / 2 ? 5 : 1));
  ROLE_CHECK(ncclCommDestroy(half) == ncclSuccess);
  ROLE_CHECK(ncclCommDestroy(rank.comm) == ncclSuccess);
  return 0;
}
const NamedRole split_in_halves("split", SplitInHalves);

TEST(Split, WorksBetweenProcesses) { EXPECT_EQ(RunRanks("split", 4), std::vector<int>(4, 0)); }

}  // namespace
}  // namespace hostgpu::nccl::testing
