// Tests ranks that are processes: when one of them dies or stops at any stage, the others learn of
// it within 15 s. Heartbeats and all other time limits are short here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/transport/job.h"
#include "transport/hello.h"
#include "transport/sockets.h"

namespace ucudnn::transport {
namespace {

using namespace test;  // NOLINT
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string RankText(int rank) { return "rank " + std::to_string(rank); }

// Joins all ranks of `job` except `victim`. Expects that `child`, which is the victim, has joined,
// too.
std::vector<std::unique_ptr<Ranks>> JoinOthers(const Job& job, int victim, const Child& child) {
  auto joined = JoinAll(job, victim);
  EXPECT_EQ(child.Heard(), "joined");
  return joined;
}

// Returns the failure, which must be the same on all ranks.
std::string FailureOfAll(const std::vector<std::unique_ptr<Ranks>>& joined) {
  for (const auto& one : joined) EXPECT_EQ(FailureOf(*one), FailureOf(*joined.front()));
  return FailureOf(*joined.front());
}

class Deaths : public ::testing::TestWithParam<int> {
 protected:
  int victim() const { return GetParam(); }
  std::string Died() const { return RankText(victim()) + " died or ended ("; }
};
INSTANTIATE_TEST_SUITE_P(OfRank, Deaths, ::testing::Values(0, 1, 2));

TEST_P(Deaths, WhileItWaitsForOthersToJoin) {
  Job job(4);
  job.meeting.times.refusing = Milliseconds(500);
  Child child(RankThat(job.Of(victim()), [](Ranks&, const Child::Tell&) {}));
  std::vector<Meeting> others = Meetings(job, victim());
  others.pop_back();  // rank 3 does not join
  std::thread killer([&] {
    std::this_thread::sleep_for(Milliseconds(500));
    child.Kill();
  });
  for (const auto& joined : JoinThese(others)) {
    EXPECT_THAT(joined->message(), HasSubstr(Died()));
  }
  killer.join();
}

TEST_P(Deaths, AfterJoining) {
  const Job job(3);
  Child child(RankThat(job.Of(victim()), [](Ranks&, const Child::Tell&) { SleepForLong(); }));
  const auto joined = JoinOthers(job, victim(), child);
  child.Kill();
  EXPECT_THAT(FailureOfAll(joined), HasSubstr(Died()));
}

TEST_P(Deaths, WhileTheOthersGather) {
  const Job job(3);
  Child child(RankThat(job.Of(victim()), [](Ranks& ranks, const Child::Tell&) {
    ranks.Doing("evaluating");
    SleepForLong();
  }));
  const auto joined = JoinOthers(job, victim(), child);
  std::this_thread::sleep_for(Milliseconds(300));  // some heartbeats
  std::thread killer([&] {
    std::this_thread::sleep_for(Milliseconds(100));
    child.Kill();
  });
  OnThreads(2, [&](int i) {
    const auto gathered = joined[static_cast<size_t>(i)]->Gather("", "the agreement");
    ASSERT_FALSE(gathered.ok());
    EXPECT_THAT(gathered.message(), AllOf(HasSubstr(Died()), HasSubstr("evaluating")));
  });
  killer.join();
}

TEST_P(Deaths, InAGatherThatAnotherHasNotComeTo) {
  const Job job(3);
  Child child(RankThat(job.Of(victim()), [](Ranks& ranks, const Child::Tell& tell) {
    tell("gathers");
    (void)ranks.Gather("", "the agreement on conv3");
  }));
  const auto joined = JoinOthers(job, victim(), child);
  EXPECT_EQ(child.Heard(), "gathers");
  std::this_thread::sleep_for(Milliseconds(200));
  child.Kill();
  EXPECT_THAT(FailureOfAll(joined), AllOf(HasSubstr(Died()), HasSubstr("the agreement on conv3")));
}

TEST_P(Deaths, AfterAGather) {
  const Job job(3);
  Child child(RankThat(job.Of(victim()), [](Ranks& ranks, const Child::Tell& tell) {
    tell(ranks.Gather("mine", "the agreement").ok() ? "gathered" : "failed");
    SleepForLong();
  }));
  const auto joined = JoinOthers(job, victim(), child);
  OnThreads(2, [&](int i) {
    Ranks& ranks = *joined[static_cast<size_t>(i)];
    const auto gathered = ranks.Gather("", "the agreement");
    ASSERT_TRUE(gathered.ok()) << gathered.message();
    EXPECT_EQ(gathered.value()[static_cast<size_t>(victim())], "mine");
  });
  EXPECT_EQ(child.Heard(), "gathered");
  child.Kill();
  EXPECT_THAT(FailureOfAll(joined), HasSubstr(Died()));
  EXPECT_FALSE(joined.front()->Gather("", "the next one").ok());
}

TEST_P(Deaths, BetweenPostsThatAreHeardUpToThen) {
  const Job job(3);
  Child child(RankThat(job.Of(victim()), [](Ranks& ranks, const Child::Tell& tell) {
    std::atomic<int> heard = 0;
    for (int i = 0; i < 100; ++i) ranks.Post(std::to_string(i));
    ranks.OnPost([&](int, std::string_view) { ++heard; });
    tell(Becomes([&] { return heard == 2; }) ? "posted" : "posted, but heard too little");
    SleepForLong();
  }));
  const auto joined = JoinOthers(job, victim(), child);
  std::atomic<int> heard = 0, wrong = 0;
  for (const auto& one : joined) {
    one->OnPost([&, next = 0](int from, std::string_view text) mutable {
      if (from != victim()) return;
      wrong += text == std::to_string(next++) ? 0 : 1;
      ++heard;
    });
    one->Post("x");
  }
  EXPECT_EQ(child.Heard(), "posted");
  EXPECT_TRUE(Becomes([&] { return heard == 200; }));
  child.Kill();
  EXPECT_THAT(FailureOfAll(joined), HasSubstr(Died()));
  EXPECT_EQ(wrong, 0);
  for (const auto& one : joined) one->OnPost(nullptr);
}

TEST_P(Deaths, InTheMiddleOfAStreamOfPosts) {
  const Job job(3);
  Child child(RankThat(job.Of(victim()), [](Ranks& ranks, const Child::Tell& tell) {
    // The child posts only after the other ranks have begun to listen.
    std::atomic<int> heard = 0;
    ranks.OnPost([&](int, std::string_view) { ++heard; });
    if (!Becomes([&] { return heard == 2; })) return tell("heard too little");
    for (int i = 0;; ++i) {
      ranks.Post(std::string(1000, 'x'));
      if (i == 1000) tell("posts");
    }
  }));
  const auto joined = JoinOthers(job, victim(), child);
  std::atomic<int> right = 0, wrong = 0;
  for (const auto& one : joined) {
    one->OnPost([&](int from, std::string_view text) {
      if (from == victim()) ++(text.size() == 1000 ? right : wrong);
    });
    one->Post("listening");
  }
  EXPECT_EQ(child.Heard(), "posts");
  EXPECT_TRUE(Becomes([&] { return right > 0; }));
  child.Kill();
  EXPECT_THAT(FailureOfAll(joined), HasSubstr(Died()));
  EXPECT_EQ(wrong, 0);
  for (const auto& one : joined) one->OnPost(nullptr);
}

TEST_P(Deaths, StoppedItIsSilent) {
  Job job(3);
  job.meeting.times.silence = Milliseconds(1000);
  Child child(RankThat(job.Of(victim()), [](Ranks& ranks, const Child::Tell&) {
    ranks.Doing("evaluating");
    SleepForLong();
  }));
  const auto joined = JoinOthers(job, victim(), child);
  std::this_thread::sleep_for(Milliseconds(300));
  child.Signal(SIGSTOP);
  EXPECT_THAT(FailureOfAll(joined), AllOf(HasSubstr(RankText(victim()) + " was silent for 1000 ms"),
                                          HasSubstr("evaluating")));
}

TEST_P(Deaths, StoppedAndContinuedItLearnsThatItWasGivenUp) {
  Job job(3);
  job.meeting.times.silence = Milliseconds(1000);
  Child child(RankThat(job.Of(victim()), [](Ranks& ranks, const Child::Tell& tell) {
    FailureOf(ranks);
    std::this_thread::sleep_for(Milliseconds(300));
    tell(FailureOf(ranks));
  }));
  const auto joined = JoinOthers(job, victim(), child);
  child.Signal(SIGSTOP);
  const std::string line = FailureOfAll(joined);
  child.Signal(SIGCONT);
  EXPECT_EQ(child.Heard(), line);
}

TEST_P(Deaths, StoppedForLessThanTheSilenceItGoesOn) {
  const Job job(3);
  Child child(RankThat(job.Of(victim()), [](Ranks& ranks, const Child::Tell& tell) {
    tell(ranks.Gather("", "the agreement").ok() ? "gathered" : "failed");
    ranks.Leave("");
  }));
  const auto joined = JoinOthers(job, victim(), child);
  child.Signal(SIGSTOP);
  std::this_thread::sleep_for(4 * job.meeting.times.heartbeat);
  child.Signal(SIGCONT);
  OnThreads(2, [&](int i) {
    Ranks& ranks = *joined[static_cast<size_t>(i)];
    EXPECT_TRUE(ranks.Gather("", "the agreement").ok());
    ranks.Leave("");
    EXPECT_FALSE(ranks.Failure());
  });
  EXPECT_EQ(child.Heard(), "gathered");
}

TEST_P(Deaths, OfAParentWhoseChildHoldsTheSocketsAreFoundByTheirSilence) {
  Job job(3);
  job.meeting.times.silence = Milliseconds(1000);
  int life[2] = {};
  ASSERT_EQ(pipe(life), 0);
  Child child(RankThat(job.Of(victim()), [&](Ranks&, const Child::Tell& tell) {
    if (fork() == 0) {  // ends once the test closes the pipe
      close(life[1]);
      char byte;
      _exit(static_cast<int>(read(life[0], &byte, 1)));
    }
    tell("forked");
    SleepForLong();
  }));
  const auto joined = JoinOthers(job, victim(), child);
  EXPECT_EQ(child.Heard(), "forked");
  child.Kill();
  EXPECT_THAT(FailureOfAll(joined), HasSubstr(RankText(victim()) + " was silent for 1000 ms"));
  close(life[0]);
  close(life[1]);
}

TEST(DeathsInJoin, OfARankZeroThatListensAndIsStopped) {
  Job job(2);
  Child child(RankThat(job.Of(0), [](Ranks&, const Child::Tell&) {}));
  // Rank 0 listens as soon as a connection to its port succeeds.
  EXPECT_TRUE(Becomes([&] {
    return static_cast<bool>(
        ConnectTo(LoopbackAddress(job.meeting.place.port), Clock::now() + kLong).socket);
  }));
  child.Signal(SIGSTOP);
  EXPECT_THAT(Ranks::Join(job.Of(1)).message(),
              AllOf(HasSubstr("rank 1 cannot join"), HasSubstr("does not answer")));
}

TEST(DeathsInJoin, OfOneThatHasConnectedAndNotGreetedDisturbNobody) {
  const Job job(2);
  Child child([&](const Child::Tell& tell) {
    Descriptor socket;
    const bool is_connected = Becomes([&] {
      socket = std::move(
          ConnectTo(LoopbackAddress(job.meeting.place.port), Clock::now() + kLong).socket);
      return static_cast<bool>(socket);
    });
    tell(is_connected ? "connected" : "cannot connect");
    SleepForLong();
  });
  std::thread first([&] { EXPECT_EQ(JoinAndLeave(job.Of(0)), ""); });
  EXPECT_EQ(child.Heard(), "connected");
  child.Kill();
  EXPECT_EQ(JoinAndLeave(job.Of(1)), "");
  first.join();
}

TEST(DeathsAtTheEnd, AfterItsGoodbyeIsNoFailure) {
  for (const int victim : {0, 1}) {
    Job job(3);
    job.meeting.times.leaving = Milliseconds(300);
    Child child(RankThat(job.Of(victim), [](Ranks& ranks, const Child::Tell& tell) {
      ranks.Leave("3 calls");
      tell("left");
      SleepForLong();
    }));
    const auto joined = JoinOthers(job, victim, child);
    EXPECT_EQ(child.Heard(), "left");
    child.Kill();
    std::this_thread::sleep_for(Milliseconds(100));
    OnThreads(2, [&](int i) {
      Ranks& ranks = *joined[static_cast<size_t>(i)];
      EXPECT_FALSE(ranks.Failure());
      EXPECT_EQ(ranks.Leave("4 calls")[static_cast<size_t>(victim)], "3 calls");
    });
  }
}

}  // namespace
}  // namespace ucudnn::transport
