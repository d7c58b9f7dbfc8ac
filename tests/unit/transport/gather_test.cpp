// Tests gathers of ranks that are threads: their results in one group and in several, and ranks
// that do not come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "tests/unit/transport/job.h"

namespace ucudnn::transport {
namespace {

using namespace test;  // NOLINT
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Contribution(int rank, int turn) {
  return "rank " + std::to_string(rank) + " turn " + std::to_string(turn);
}

TEST(Gather, GivesEveryRanksContributionInTheGroupsOrder) {
  for (const auto& [size, groups] : {std::pair(1, 1), {2, 1}, {3, 1}, {8, 1}, {6, 2}, {8, 4}}) {
    const Job job(size, groups);
    const auto all = JoinAll(job);
    OnThreads(size, [&](int rank) {
      for (int turn = 0; turn < 20; ++turn) {
        const auto gathered =
            all[static_cast<size_t>(rank)]->Gather(Contribution(rank, turn), "a test");
        ASSERT_TRUE(gathered.ok()) << gathered.message();
        ASSERT_EQ(gathered->size(), static_cast<size_t>(job.group_size));
        for (int i = 0; i < job.group_size; ++i) {
          const int other = rank / job.group_size * job.group_size + i;
          EXPECT_EQ(gathered.value()[static_cast<size_t>(i)], Contribution(other, turn));
        }
      }
      all[static_cast<size_t>(rank)]->Leave("");
    });
    for (const auto& ranks : all) EXPECT_FALSE(ranks->Failure());
  }
}

TEST(Gather, GroupsMayBeInterleaved) {
  std::vector<Meeting> meetings = Meetings(Job(4));
  for (int rank = 0; rank < 4; ++rank) {
    // Each group numbers its ranks in reverse order.
    meetings[rank].membership = {rank, 4, rank % 2, 1 - rank / 2, 2};
  }
  const auto joined = JoinThese(meetings);
  OnThreads(4, [&](int rank) {
    ASSERT_TRUE(joined[static_cast<size_t>(rank)]->ok());
    Ranks& ranks = *joined[static_cast<size_t>(rank)]->value();
    const auto gathered = ranks.Gather(std::to_string(rank), "a test");
    ASSERT_TRUE(gathered.ok()) << gathered.message();
    EXPECT_THAT(*gathered,
                ::testing::ElementsAre(std::to_string(rank % 2 + 2), std::to_string(rank % 2)));
    ranks.Leave("");
  });
}

TEST(Gather, TakesContributionsOfAMegabyteAndNoMore) {
  const Job job(2);
  const auto all = JoinAll(job);
  const std::string large((1 << 20) - 8, 'x');
  OnThreads(2, [&](int rank) {
    Ranks& ranks = *all[static_cast<size_t>(rank)];
    EXPECT_FALSE(ranks.Gather(large + "y", "too much").ok());
    const auto gathered = ranks.Gather(rank == 0 ? large : "", "much");
    ASSERT_TRUE(gathered.ok()) << gathered.message();
    EXPECT_EQ(gathered->front(), large);
    EXPECT_EQ(gathered->back(), "");
  });
}

class LogFile {
 public:
  LogFile() : path_(::testing::TempDir() + "/ranks_log_" + std::to_string(getpid())) {
    ConfigureLog(LogLevel::kWarn, path_, -1);
  }
  ~LogFile() {
    ConfigureLog(LogLevel::kWarn, "/dev/stderr", -1);
    unlink(path_.c_str());
  }
  std::string Text() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

TEST(Gather, ALateRankIsWarnedOfByNameAndThenGoesOn) {
  Job job(3);
  job.meeting.times.warning = Milliseconds(300);
  const auto all = JoinAll(job);
  const LogFile log;
  OnThreads(3, [&](int rank) {
    Ranks& ranks = *all[static_cast<size_t>(rank)];
    if (rank == 1) {
      ranks.Doing("evaluating on 10 images");
      EXPECT_TRUE(Becomes([&] {
        return log.Text().find("rank 2 has waited") != std::string::npos &&
               log.Text().find("rank 0 has waited") != std::string::npos;
      }));
    }
    EXPECT_TRUE(ranks.Gather("", "the agreement on conv1").ok());
    ranks.Leave("");
  });
  EXPECT_THAT(log.Text(), AllOf(HasSubstr("in the agreement on conv1 for rank 1 (which does: "
                                          "evaluating on 10 images)"),
                                ::testing::Not(HasSubstr("rank 1 has waited"))));
}

TEST(Gather, ARankThatDoesNotComeIsAnErrorOnAllAfterTheTimeout) {
  Job job(3);
  job.meeting.times.timeout = Milliseconds(500);
  const auto all = JoinAll(job);
  all[1]->Doing("writing a checkpoint");
  std::this_thread::sleep_for(Milliseconds(200));  // some heartbeats
  OnThreads(3, [&](int rank) {
    Ranks& ranks = *all[static_cast<size_t>(rank)];
    if (rank == 1) {
      FailureOf(ranks);
      EXPECT_FALSE(ranks.Gather("", "too late").ok());
      return;
    }
    const auto gathered = ranks.Gather("", "the agreement on conv1");
    ASSERT_FALSE(gathered.ok());
    EXPECT_THAT(gathered.message(),
                AllOf(HasSubstr("rank 1 (which does: writing a checkpoint) did not come to the "
                                "agreement on conv1")));
  });
  EXPECT_EQ(*all[0]->Failure(), *all[1]->Failure());
  EXPECT_EQ(*all[0]->Failure(), *all[2]->Failure());
}

TEST(Gather, ACallbackCannotGather) {
  const Job job(2);
  const auto all = JoinAll(job);
  std::atomic<int> refused = 0;
  all[1]->OnPost([&](int, std::string_view) { refused += all[1]->Gather("", "x").ok() ? 0 : 1; });
  all[0]->Post("a");
  EXPECT_TRUE(Becomes([&] { return refused == 1; }));
}

TEST(Gather, EndsWhenSomebodyFails) {
  const Job job(3);
  const auto all = JoinAll(job);
  std::vector<std::string> told(3);
  for (size_t rank = 0; rank < 3; ++rank) {
    all[rank]->OnFailure([&told, rank](std::string_view line) { told[rank] += line; });
  }
  OnThreads(3, [&](int rank) {
    if (rank == 2) {
      all[2]->Fail("rank 2 has no memory");
      return;
    }
    const auto gathered = all[static_cast<size_t>(rank)]->Gather("", "a test");
    ASSERT_FALSE(gathered.ok());
    EXPECT_EQ(gathered.message(), "rank 2 has no memory");
  });
  OnThreads(3, [&](int rank) { all[static_cast<size_t>(rank)]->Leave(""); });
  EXPECT_THAT(told, ::testing::Each("rank 2 has no memory"));
}

TEST(Fail, TheFirstLineCountsOnAllRanks) {
  for (int turn = 0; turn < 20; ++turn) {
    const Job job(4);
    const auto all = JoinAll(job);
    std::vector<std::string> lines(4);
    OnThreads(4, [&](int rank) {
      Ranks& ranks = *all[static_cast<size_t>(rank)];
      ranks.Fail("line of rank " + std::to_string(rank));
      EXPECT_TRUE(ranks.Failure());
      std::atomic<bool> told = false;
      ranks.OnFailure([&](std::string_view line) {
        lines[static_cast<size_t>(rank)] = line;
        told = true;
      });
      EXPECT_TRUE(Becomes([&] { return told.load(); }));
      EXPECT_EQ(*ranks.Failure(), lines[static_cast<size_t>(rank)]);
      ranks.OnFailure(nullptr);
    });
    EXPECT_THAT(lines, ::testing::Each(lines.front()));
  }
}

}  // namespace
}  // namespace ucudnn::transport
