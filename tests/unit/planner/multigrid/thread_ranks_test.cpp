// Tests messages between ranks that are threads, and the errors of the other ranks when one rank
// fails or is late.
#include <gtest/gtest.h>

#include <atomic>

#include "planner/multigrid/distributed/thread_ranks.h"
#include "tests/support/becomes.h"

namespace ucudnn::multigrid {
namespace {

TEST(ThreadRanks, MessagesArriveInOrder) {
  ThreadRanks job(2);
  const Status status = RunOnThreads(job, 2, [](Peers& peers) -> Status {
    for (int i = 0; i < 100; ++i) {
      if (peers.rank() == 0) {
        UCUDNN_RETURN_IF_ERROR(peers.Send(1, std::vector<double>(i, i)));
        continue;
      }
      UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> message, peers.Receive(0));
      if (message != std::vector<double>(i, i)) return Status::Error(std::to_string(i));
    }
    return Status::Ok();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ThreadRanks, AllGatherTheSame) {
  ThreadRanks job(4);
  std::atomic<int> right = 0;
  const Status status = RunOnThreads(job, 4, [&](Peers& peers) -> Status {
    if (peers.rank() == 3) return Status::Ok();
    const std::vector<double> mine(peers.rank() + 1, peers.rank());
    UCUDNN_ASSIGN_OR_RETURN(const auto all, GatherNumbers(peers, 3, mine));
    if (all == std::vector<std::vector<double>>{{0}, {1, 1}, {2, 2, 2}}) ++right;
    return Status::Ok();
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(right, 3);
}

TEST(ThreadRanks, TheFirstErrorEndsAllWaits) {
  ThreadRanks job(3);
  const Status status = RunOnThreads(job, 3, [](Peers& peers) -> Status {
    if (peers.rank() == 1) return Status::Error("no memory for rank 1");
    return peers.Receive((peers.rank() + 1) % 3).status();
  });
  EXPECT_EQ(status.message(), "no memory for rank 1");
}

// Rank 0 waits for rank 1, and rank 1 for rank 2. The error must name rank 2.
TEST(ThreadRanks, NamesTheRankThatIsLate) {
  ThreadRanks job(3, std::chrono::milliseconds(200));
  const Status status = RunOnThreads(job, 3, [&](Peers& peers) -> Status {
    if (peers.rank() < 2) return peers.Receive(peers.rank() + 1).status();
    EXPECT_TRUE(ucudnn::test::Becomes([&] { return job.Failure().has_value(); }));
    return Status::Ok();
  });
  EXPECT_EQ(status.message(), "rank 2 was waited for by others for 200 ms and has not come");
}

TEST(ThreadRanks, RefusesAMessageOfAnotherLength) {
  ThreadRanks job(2);
  const Status status = RunOnThreads(job, 2, [](Peers& peers) -> Status {
    if (peers.rank() == 0) return peers.Send(1, std::vector<double>(3));
    std::vector<double> numbers(4);
    return ReceiveInto(peers, 0, numbers);
  });
  EXPECT_EQ(status.message(), "rank 0 sent 3 numbers to rank 1, which expected 4");
}

}  // namespace
}  // namespace ucudnn::multigrid
