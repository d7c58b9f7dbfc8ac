// Tests how ranks leave: the last text of each rank, which ranks a leaving rank waits for, and
// which ends of a rank are no failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/transport/job.h"

namespace ucudnn::transport {
namespace {

using namespace test;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

Milliseconds Since(Clock::time_point begin) {
  return std::chrono::ceil<Milliseconds>(Clock::now() - begin);
}

TEST(Leave, GivesEveryRankAllLastTexts) {
  for (const int size : {1, 2, 5}) {
    const Job job(size);
    auto all = JoinAll(job);
    OnThreads(size, [&](int rank) {
      auto& ranks = all[static_cast<size_t>(rank)];
      const Clock::time_point begin = Clock::now();
      const auto texts = ranks->Leave("calls " + std::to_string(rank));
      EXPECT_LT(Since(begin), Milliseconds(1500));
      ASSERT_EQ(texts.size(), static_cast<size_t>(size));
      for (int i = 0; i < size; ++i) {
        EXPECT_THAT(texts[static_cast<size_t>(i)], Optional("calls " + std::to_string(i)));
      }
      EXPECT_FALSE(ranks->Failure());
      ranks.reset();
    });
  }
}

TEST(Leave, DoesNotWaitLongForARankThatDoesNotCome) {
  for (const size_t leaver : {size_t{0}, size_t{1}}) {
    Job job(3);
    job.meeting.times.leaving = Milliseconds(300);
    auto all = JoinAll(job);
    const Clock::time_point begin = Clock::now();
    const auto texts = all[leaver]->Leave("last");
    EXPECT_GE(Since(begin), Milliseconds(300));
    EXPECT_LT(Since(begin), Milliseconds(1500));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(texts[i], i == leaver ? std::optional<std::string>("last") : std::nullopt);
    }
    all[leaver].reset();
    std::this_thread::sleep_for(Milliseconds(100));
    for (const auto& ranks : all) EXPECT_FALSE(ranks != nullptr && ranks->Failure());
    // A rank that leaves later still gets the last text of a rank that left before.
    all[2]->Post("nobody may hear this");
    EXPECT_THAT(all[2]->Leave("later")[leaver], Optional(std::string("last")));
  }
}

TEST(Leave, RankZeroServesOtherGroupsUntilTheyEnd) {
  Job job(4, 2);
  job.meeting.times.leaving = Milliseconds(50);
  const auto all = JoinAll(job);
  std::atomic<int> others = 2;
  OnThreads(4, [&](int rank) {
    Ranks& ranks = *all[static_cast<size_t>(rank)];
    if (rank < 2) {
      ranks.Leave("");
      EXPECT_TRUE(rank != 0 || others == 0) << "rank 0 left first";
      return;
    }
    std::this_thread::sleep_for(Milliseconds(250));  // much longer than `leaving`
    const auto gathered = ranks.Gather(std::to_string(rank), "a later gather");
    EXPECT_TRUE(gathered.ok()) << gathered.message();
    --others;
    ranks.Leave("");
    EXPECT_FALSE(ranks.Failure());
  });
}

TEST(Leave, RankZeroServesOtherGroupsNoLongerThanTheyDoSomething) {
  Job job(4, 2);
  job.meeting.times.leaving = Milliseconds(100);
  job.meeting.times.timeout = Milliseconds(1500);
  const auto all = JoinAll(job);
  std::atomic<bool> left = false;
  std::thread zero([&] {
    all[0]->Leave("");
    left = true;
  });
  const Clock::time_point begin = Clock::now();
  while (Since(begin) < Milliseconds(3000)) {
    all[2]->Post("a record");
    std::this_thread::sleep_for(Milliseconds(100));
    EXPECT_FALSE(left);
  }
  const Clock::time_point last = Clock::now();
  EXPECT_TRUE(Becomes([&] { return left.load(); }, Milliseconds(8000)));
  EXPECT_GE(Since(last), Milliseconds(1000));
  for (const size_t i : {1, 2, 3}) {
    EXPECT_FALSE(all[i]->Failure());
    all[i]->Leave("");
  }
  zero.join();
}

TEST(Leave, TellsTheOthersAtOnce) {
  const Job job(2);
  const auto all = JoinAll(job);
  std::atomic<bool> told = false;
  all[0]->OnLeave([&](int rank, std::string_view last) { told = rank == 1 && last == "3 calls"; });
  all[0]->OnPost([](int, std::string_view) {});
  std::thread leaver([&] { all[1]->Leave("3 calls"); });
  EXPECT_TRUE(Becomes([&] { return told.load(); }));
  all[0]->Leave("4 calls");
  leaver.join();
}

TEST(Leave, AGatherThatStillWaitsForTheRankFails) {
  for (const int leaver : {0, 1}) {
    Job job(2);
    job.meeting.times.leaving = Milliseconds(100);
    const auto all = JoinAll(job);
    OnThreads(2, [&](int rank) {
      Ranks& ranks = *all[static_cast<size_t>(rank)];
      if (rank == leaver) {
        ranks.Leave("");
        return;
      }
      const auto gathered = ranks.Gather("", "the agreement on conv7");
      ASSERT_FALSE(gathered.ok());
      EXPECT_THAT(gathered.message(), HasSubstr("rank " + std::to_string(leaver) +
                                                " has left the job and cannot come to the "
                                                "agreement on conv7"));
    });
  }
}

TEST(Leave, EndsTheRanksOwnGathersAndPosts) {
  Job job(2);
  job.meeting.times.leaving = Milliseconds(200);
  const auto all = JoinAll(job);
  std::thread waiting([&] {
    EXPECT_THAT(all[1]->Gather("", "the agreement").message(),
                HasSubstr("rank 1 has left the job and cannot come to the agreement"));
  });
  std::this_thread::sleep_for(Milliseconds(100));
  all[1]->Leave("");
  waiting.join();
  for (int i = 0; i < 10000; ++i) all[1]->Post(std::string(1000, 'x'));
  EXPECT_FALSE(all[1]->Gather("", "the next one").ok());
}

TEST(Leave, ASecondTimeOnlyTellsTheTexts) {
  const Job job(1);
  const auto all = JoinAll(job);
  EXPECT_THAT(all[0]->Leave("a"), ElementsAre(Optional(std::string("a"))));
  EXPECT_THAT(all[0]->Leave("b"), ElementsAre(Optional(std::string("a"))));
}

TEST(Leave, AfterAFailureWaitsForNobody) {
  const Job job(2);
  const auto all = JoinAll(job);
  all[0]->Fail("line");
  FailureOf(*all[1]);
  const Clock::time_point begin = Clock::now();
  all[1]->Leave("");
  all[0]->Leave("");
  EXPECT_LT(Since(begin), Milliseconds(1500));
}

TEST(Leave, EndingWithoutItIsAFailureOfTheOthers) {
  for (const size_t ender : {size_t{0}, size_t{1}}) {
    const Job job(3);
    auto all = JoinAll(job);
    all[ender].reset();
    EXPECT_THAT(FailureOf(*all[2]), HasSubstr("rank " + std::to_string(ender) + " died or ended"));
  }
}

TEST(Leave, AForkedChildThatHoldsTheSocketsHidesNoGoodbye) {
  const Job job(2);
  auto all = JoinAll(job);
  const pid_t child = fork();
  if (child == 0) {
    SleepForLong();
    _exit(0);
  }
  OnThreads(2, [&](int rank) {
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(all[static_cast<size_t>(rank)]->Leave("")[0], "");
    EXPECT_LT(Since(begin), Milliseconds(1500));
  });
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(Leave, AForkedChildHasNoPartInTheJob) {
  const Job job(2);
  auto all = JoinAll(job);
  const pid_t child = fork();
  if (child == 0) {
    all[0]->Post("x");
    all[0]->Doing("x");
    all[0]->Fail("x");
    const bool refused = !all[1]->Gather("", "x").ok() && all[0]->Leave("x").empty();
    all.clear();
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  OnThreads(2, [&](int rank) {
    EXPECT_TRUE(all[static_cast<size_t>(rank)]->Gather("", "still there").ok());
    all[static_cast<size_t>(rank)]->Leave("");
    EXPECT_FALSE(all[static_cast<size_t>(rank)]->Failure());
  });
}

}  // namespace
}  // namespace ucudnn::transport
