// Tests HOSTGPU_NCCL_DELAY_US, HOSTGPU_NCCL_BANDWIDTH, HOSTGPU_NCCL_SERIAL and
// HOSTGPU_NCCL_VERSION. A process reads them once, so each test starts new processes.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "tests/unit/host/nccl/processes.h"

namespace hostgpu::nccl::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kMillisecond{1};
constexpr size_t kMebibyte = 1 << 18;  // elements of int in 1 MiB

// Makes `call` between two ranks. Checks that the call takes at least `part.argument` milliseconds
// on this rank.
int TakeTime(Part& part, const std::function<ncclResult_t(const Rank&)>& call) {
  Rank& rank = part.rank;
  ROLE_CHECK(ncclCommInitRank(&rank.comm, rank.ranks, part.id, rank.rank) == ncclSuccess);
  const auto begin = Clock::now();
  ROLE_CHECK(call(rank) == ncclSuccess);
  rank.Synchronize();
  const auto took = Clock::now() - begin;
  ROLE_CHECK(rank.AsyncError() == ncclSuccess);
  ROLE_CHECK(took >= std::atoi(part.argument.c_str()) * kMillisecond);
  ROLE_CHECK(ncclCommDestroy(rank.comm) == ncclSuccess);
  return 0;
}

int SendOne(Part& part) {
  const Array<int> array(kMebibyte, part.rank.rank);
  return TakeTime(part, [&](const Rank& rank) { return rank.Pass(array); });
}
int SendTwo(Part& part) {
  const Array<int> a(kMebibyte, part.rank.rank), b(kMebibyte, part.rank.rank);
  return TakeTime(part, [&](const Rank& rank) {
    ncclGroupStart();
    for (const Array<int>* array : {&a, &b}) rank.Pass(*array);
    return ncclGroupEnd();
  });
}
int ReduceOne(Part& part) {
  const Array<int> array(kMebibyte, part.rank.rank);
  return TakeTime(part, [&](const Rank& rank) { return rank.Sum(array); });
}
const NamedRole send_one("send one", SendOne), send_two("send two", SendTwo),
    reduce_one("reduce one", ReduceOne);

TEST(Links, DelayMessages) {
  const Environment delay = {{"HOSTGPU_NCCL_DELAY_US", "60000"}};
  for (const char* role : {"send one", "send two", "reduce one"}) {
    EXPECT_EQ(RunRanks(role, 2, "60", delay), std::vector<int>(2, 0)) << role;
  }
}

TEST(Links, TakeTimeForEachByte) {
  const Environment bandwidth = {{"HOSTGPU_NCCL_BANDWIDTH", "10MiB"}};
  EXPECT_EQ(RunRanks("send one", 2, "100", bandwidth), std::vector<int>(2, 0));
  EXPECT_EQ(RunRanks("send two", 2, "200", bandwidth), std::vector<int>(2, 0))
      << "one after the other";
  EXPECT_EQ(RunRanks("reduce one", 2, "100", bandwidth), std::vector<int>(2, 0));
}

TEST(Links, AddDelayAndTime) {
  const Environment both = {{"HOSTGPU_NCCL_BANDWIDTH", "10MiB"},
                            {"HOSTGPU_NCCL_DELAY_US", "50000"}};
  EXPECT_EQ(RunRanks("send two", 2, "250", both), std::vector<int>(2, 0));
}

// Rank 0 aborts while its message is under way, and then overwrites what it sent. Rank 1 must
// receive nothing.
int Overwrite(Part& part) {
  Rank& rank = part.rank;
  ROLE_CHECK(ncclCommInitRank(&rank.comm, rank.ranks, part.id, rank.rank) == ncclSuccess);
  const Array<int> array(kMebibyte, rank.rank);
  if (rank.rank == 0) {
    ROLE_CHECK(rank.Pass(array) == ncclSuccess);
    std::this_thread::sleep_for(4 * kMoment);  // the message is under way
    ROLE_CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
    ROLE_CHECK(cudaMemsetAsync(array.data(), 0xee, array.bytes(), rank.stream) == cudaSuccess);
    rank.Synchronize();
    return 0;
  }
  ROLE_CHECK(rank.Pass(array) == ncclSuccess);
  ROLE_CHECK(array.Read(rank.stream) == std::vector<int>(kMebibyte, 1));
  ROLE_CHECK(rank.AsyncError() == ncclRemoteError);
  ROLE_CHECK(ncclCommAbort(rank.comm) == ncclSuccess);
  return 0;
}
const NamedRole overwrite("overwrite", Overwrite);

TEST(Links, BringNothingOfARankThatAborts) {
  EXPECT_EQ(RunRanks("overwrite", 2, "", {{"HOSTGPU_NCCL_DELAY_US", "1000000"}}),
            std::vector<int>(2, 0));
}

// Holds two communicators of the same two ranks, each with a stream.
struct Pair {
  Pair(const Rank& rank, const ncclUniqueId& id) : first(rank), second(rank) {
    second.stream = other;
    EXPECT_NCCL(ncclCommInitRank(&second.comm, 2, id, rank.rank));
  }
  ~Pair() { EXPECT_NCCL(ncclCommDestroy(second.comm)); }
  void ReduceOnFirst() { EXPECT_NCCL(first.Sum(a)); }
  void ReduceOnSecond() { EXPECT_NCCL(second.Sum(b)); }
  const Stream other;
  Rank first, second;
  const Array<int> a{100, 1}, b{100, 1};
};

// Rank 0 begins the first communicator's operation, which rank 1 joins only at the end. With
// HOSTGPU_NCCL_SERIAL=1, the second communicator's operation must not run before the first one has
// ended.
int TakeTurns(Part& part) {
  const bool serial = part.argument == "serial";
  Barrier barrier(2);
  const ncclUniqueId id = NewId();
  WithRanks(2, [&](Rank& rank) {
    Pair pair(rank, id);
    if (rank.rank == 0) pair.ReduceOnFirst();
    std::this_thread::sleep_for(4 * kMoment);  // rank 0 has begun the first operation by now
    pair.ReduceOnSecond();
    std::this_thread::sleep_for(4 * kMoment);
    if (serial) {
      EXPECT_EQ(cudaStreamQuery(pair.second.stream), cudaErrorNotReady);
      barrier.Wait();  // both ranks have made the query before an abort ends the operation
      EXPECT_NCCL(ncclCommAbort(std::exchange(pair.second.comm, nullptr)));
    } else {
      EXPECT_EQ(pair.b.Read(pair.second.stream), std::vector<int>(100, 2));
    }
    if (rank.rank == 1) pair.ReduceOnFirst();
    EXPECT_EQ(pair.a.Read(rank.stream), std::vector<int>(100, 2));
    EXPECT_CUDA(cudaStreamSynchronize(pair.second.stream));
  });
  return ::testing::Test::HasFailure() ? 1 : 0;
}
const NamedRole take_turns("take turns", TakeTurns);

TEST(Links, OfOneDeviceAreUsedTogether) {
  EXPECT_EQ(RunRanks("take turns", 1, ""), std::vector<int>{0});
}

// HOSTGPU_NCCL_SERIAL=1 imitates a GPU whose multiprocessors are all occupied by the first
// operation.
TEST(Links, OfOneDeviceServeOneOperationAtATimeWhereSerial) {
  EXPECT_EQ(RunRanks("take turns", 1, "serial", {{"HOSTGPU_NCCL_SERIAL", "1"}}),
            std::vector<int>{0});
}

int KeepOrder(Part&) {
  const ncclUniqueId id = NewId();
  WithRanks(2, [&](Rank& rank) {
    Pair pair(rank, id);
    for (int round = 0; round < 20; ++round) {
      pair.ReduceOnFirst();
      pair.first.Synchronize();
      pair.ReduceOnSecond();
      pair.second.Synchronize();
    }
    EXPECT_EQ(pair.b.Read(pair.second.stream), std::vector<int>(100, 1 << 20));
  });
  return ::testing::Test::HasFailure() ? 1 : 0;
}
const NamedRole keep_order("keep order", KeepOrder);

TEST(Links, ThatAreSerialServeOperationsInAnAgreedOrder) {
  EXPECT_EQ(RunRanks("keep order", 1, "", {{"HOSTGPU_NCCL_SERIAL", "1"}}), std::vector<int>{0});
}

int TellVersion(Part& part) {
  int version = 0;
  ROLE_CHECK(ncclGetVersion(&version) == ncclSuccess);
  ROLE_CHECK(version == std::atoi(part.argument.c_str()));
  return 0;
}
const NamedRole tell_version("tell version", TellVersion);

TEST(Version, IsThatOfTheInterfaceUnlessToldOtherwise) {
  EXPECT_EQ(RunRanks("tell version", 1, "22809"), std::vector<int>{0});
  EXPECT_EQ(RunRanks("tell version", 1, "21005", {{"HOSTGPU_NCCL_VERSION", "21005"}}),
            std::vector<int>{0});
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
}

}  // namespace
}  // namespace hostgpu::nccl::testing
