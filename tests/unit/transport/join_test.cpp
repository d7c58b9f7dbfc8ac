// Tests meetings that fail: which error each rank gets and how soon. Also tests meetings at an
// address or a file that another job uses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <tuple>

#include "tests/unit/transport/job.h"
#include "transport/meeting_file.h"
#include "transport/sockets.h"

namespace ucudnn::transport {
namespace {

using namespace test;  // NOLINT
using ::testing::AllOf;
using ::testing::HasSubstr;

// Expects that all ranks fail with the same line, and returns the line.
std::string LineOfAll(const std::vector<Meeting>& meetings) {
  const Clock::time_point begin = Clock::now();
  const auto joined = JoinThese(meetings);
  EXPECT_LT(Clock::now() - begin, Milliseconds(15000));
  for (const auto& one : joined) {
    EXPECT_FALSE(one->ok());
    EXPECT_EQ(one->message(), joined.front()->message());
  }
  return joined.front()->message();
}

TEST(Join, OtherNumbersOfRanksAreNamedOnAll) {
  auto all = Meetings(Job(3));
  all[2].membership.size = 4;
  EXPECT_EQ(LineOfAll(all), "ranks differ in the number of ranks: rank 2 has 4, rank 0 has 3");
}

TEST(Join, OtherGridsAreNamedOnAll) {
  auto all = Meetings(Job(3));
  all[1].terms[0].value = "h2w2";
  EXPECT_EQ(LineOfAll(all), "ranks differ in UCUDNN_SPATIAL: rank 1 has 'h2w2', rank 0 has 'h4'");
}

TEST(Join, OtherVersionsAreNamedOnAll) {
  auto all = Meetings(Job(2));
  all[1].version = "1.2.4";
  EXPECT_EQ(LineOfAll(all),
            "ranks differ in ucudnn's version: rank 1 has '1.2.4', rank 0 has '1.2.3'");
}

TEST(Join, MoreTermsOnOneRankAreNamedOnAll) {
  auto all = Meetings(Job(2));
  all[1].terms.push_back({"UCUDNN_SPATIAL_AGREE", "each"});
  EXPECT_THAT(LineOfAll(all), HasSubstr("ranks differ in what is compared: rank 1 has "
                                        "'UCUDNN_SPATIAL_AGREE'"));
}

TEST(Join, ARankThatIsThereTwiceIsNamedOnAll) {
  Job job(3);
  job.meeting.times.refusing = Milliseconds(500);
  auto all = Meetings(job);
  // No process has rank 2, so rank 0 waits for it in vain.
  all[2].membership.rank = 1;
  EXPECT_THAT(LineOfAll(all), AllOf(HasSubstr("rank 1 is there twice: process "),
                                    HasSubstr(std::to_string(getpid()) + " on host ")));
}

TEST(Join, TwoRanksZeroOfOneJobBothLearnOfIt) {
  Job job(2);
  job.meeting.times.refusing = Milliseconds(300);
  std::vector<Meeting> both = {job.Of(0), job.Of(0)};
  EXPECT_THAT(LineOfAll(both), HasSubstr("rank 0 is there twice"));
}

TEST(Join, GroupsThatMakeNoSenseAreNamedOnAll) {
  auto all = Meetings(Job(4, 2));
  all[3].membership.group = 0;
  EXPECT_THAT(LineOfAll(all), HasSubstr("group 0, which has 3 ranks"));
  all = Meetings(Job(4, 2));
  all[3].membership.group_rank = 0;
  EXPECT_THAT(LineOfAll(all), HasSubstr("rank 3 says that it is number 0 of 2 in group 1, and so "
                                        "does another rank"));
}

TEST(Join, OneThatComesAfterAFailureIsToldTheLine) {
  auto all = Meetings(Job(3));
  all[1].version = "0";
  std::string early[2], late;
  OnThreads(2, [&](int rank) {
    early[rank] = Ranks::Join(all[static_cast<size_t>(rank)]).message();
    // After rank 0 has told rank 1, it still waits for rank 2.
    if (rank == 1) late = Ranks::Join(all[2]).message();
  });
  EXPECT_THAT(late, HasSubstr("ranks differ in ucudnn's version"));
  EXPECT_EQ(early[0], late);
  EXPECT_EQ(early[1], late);
}

TEST(Join, RanksMayComeInAnyOrderAndLate) {
  const Job job(3);
  OnThreads(3, [&](int rank) {
    std::this_thread::sleep_for(Milliseconds(200 * (2 - rank)));  // rank 0 comes last
    const auto joined = Ranks::Join(job.Of(rank));
    ASSERT_TRUE(joined.ok()) << joined.message();
    EXPECT_TRUE(joined.value()->Gather("", "a test").ok());
    joined.value()->Leave("");
  });
}

TEST(Join, ARankThatDoesNotComeIsNamedAfterTheTimeout) {
  Job job(4);
  job.meeting.times.timeout = Milliseconds(400);
  job.meeting.times.refusing = Milliseconds(100);
  auto all = Meetings(job);
  const auto joined = JoinThese({all[0], all[2]});
  EXPECT_THAT(joined[0]->message(), HasSubstr("for rank 1, rank 3"));
  EXPECT_THAT(joined[1]->message(), HasSubstr("rank 1, rank 3"));
}

TEST(Join, ARankZeroThatDoesNotComeIsNamedAfterTheTimeout) {
  Job job(2);
  job.meeting.times.timeout = Milliseconds(300);
  EXPECT_THAT(Ranks::Join(job.Of(1)).message(),
              AllOf(HasSubstr("rank 1 cannot join at " + job.meeting.place.Text()),
                    HasSubstr("rank 0 has not let it in")));
}

TEST(Join, AnotherTokenIsAnotherJob) {
  Job job(2), other = job;
  other.meeting.token = "secres";
  job.meeting.times.timeout = Milliseconds(1000);
  job.meeting.times.refusing = Milliseconds(100);
  const auto joined = JoinThese({job.Of(0), other.Of(1)});
  EXPECT_THAT(joined[1]->message(), AllOf(HasSubstr("rank 1 cannot join at tcp://127.0.0.1:"),
                                          HasSubstr("another token")));
  EXPECT_THAT(joined[0]->message(),
              AllOf(HasSubstr("for rank 1"), HasSubstr("connections with another token")));
}

// A process with another token may be a stranger. So rank 0 reports it and continues to wait for
// the ranks.
TEST(Join, AnotherTokenIsToldOfLongBeforeTheTimeout) {
  Job job(3), other = job;
  other.meeting.token = "secres";
  testing::internal::CaptureStderr();
  std::thread zero([&] { EXPECT_EQ(JoinAndLeave(job.Of(0)), ""); });
  EXPECT_THAT(Ranks::Join(other.Of(1)).message(), HasSubstr("another token"));
  std::this_thread::sleep_for(4 * job.meeting.times.handshake);
  OnThreads(2, [&](int i) { EXPECT_EQ(JoinAndLeave(job.Of(i + 1)), ""); });
  zero.join();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, AllOf(HasSubstr("rank 0 at tcp://127.0.0.1:"),
                          HasSubstr("misses 2 of 3 ranks: rank 1, rank 2 (dropped: 1 connections "
                                    "with another token, the last from 127.0.0.1:"),
                          HasSubstr("UCUDNN_RENDEZVOUS_TOKEN")));
  EXPECT_EQ(told.find("misses"), told.rfind("misses")) << told;
}

TEST(Join, AStrangerIsNotToldOfWhereTheRanksCome) {
  Job job(2), other = job;
  other.meeting.token = "secres";
  job.meeting.times.handshake = kLong;
  testing::internal::CaptureStderr();
  std::thread zero([&] { EXPECT_EQ(JoinAndLeave(job.Of(0)), ""); });
  EXPECT_THAT(Ranks::Join(other.Of(1)).message(), HasSubstr("another token"));
  EXPECT_EQ(JoinAndLeave(job.Of(1)), "");
  zero.join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Join, TwoJobsAtOneAddressTheFirstIsNotDisturbed) {
  const Job first(3);
  Job second = first;
  second.meeting.token = "another";
  std::vector<std::unique_ptr<Ranks>> ranks(3);
  std::thread waiting([&] { ranks[0] = std::move(Ranks::Join(first.Of(0)).value()); });
  std::this_thread::sleep_for(Milliseconds(200));
  const Clock::time_point begin = Clock::now();
  const auto refused = JoinThese(Meetings(second));
  EXPECT_LT(Clock::now() - begin, Milliseconds(5000));
  EXPECT_THAT(refused[0]->message(),
              AllOf(HasSubstr("rank 0 cannot listen at " + first.meeting.place.Text()),
                    HasSubstr("another job")));
  for (int rank = 1; rank < 3; ++rank) {
    EXPECT_THAT(refused[static_cast<size_t>(rank)]->message(), HasSubstr("it is another job"));
  }
  OnThreads(2, [&](int i) {
    auto joined = Ranks::Join(first.Of(i + 1));
    ASSERT_TRUE(joined.ok()) << joined.message();
    ranks[static_cast<size_t>(i + 1)] = std::move(joined.value());
  });
  waiting.join();
  OnThreads(3, [&](int rank) {
    EXPECT_TRUE(ranks[static_cast<size_t>(rank)]->Gather("", "a test").ok());
  });
}

TEST(Join, AnAddressIsFreeAgainOnceAJobHasBegun) {
  const Job first(2);
  const auto one = JoinAll(first);
  Job second = first;
  second.meeting.token = "another";
  const auto two = JoinAll(second);
  for (const auto* const job : {&one, &two}) {
    OnThreads(2, [&](int rank) {
      EXPECT_TRUE((*job)[static_cast<size_t>(rank)]->Gather("", "a test").ok());
    });
  }
}

TEST(Join, WithoutATokenRanksOfThisHostMeetOnTheLoopbackInterface) {
  Job job(2);
  job.meeting.token.clear();
  const auto all = JoinAll(job);
  EXPECT_EQ(all.size(), 2u);
}

TEST(Join, AHostMayBeNamedInAnyWay) {
  // All are names of this host. HostName() may resolve to 127.0.1.1, where nobody listens.
  for (const std::string& host : {std::string("localhost"), HostName(), std::string("127.0.1.1")}) {
    for (const char* const token : {"", "secret"}) {
      Job job(2);
      job.meeting.place.host = host;
      job.meeting.token = token;
      EXPECT_EQ(JoinAll(job).size(), 2u) << host;
    }
  }
}

TEST(Join, OnTheLoopbackInterfaceOfIPv6) {
  Job job(2);
  job.meeting.place.host = "::1";
  if (!AddressesOf("::1", 1)->front().IsOfThisHost()) GTEST_SKIP() << "a host without IPv6";
  EXPECT_EQ(JoinAll(job).size(), 2u);
}

TEST(Join, OfAJobOnThisHostAloneIsNotSeenByOthers) {
  for (const auto& [token, host, shown] : {std::tuple("", "127.0.0.1", false),
                                           {"", "", false},
                                           {"secret", "127.0.0.1", false},
                                           {"secret", "", true}}) {
    const std::vector<std::string> addresses = InterfaceAddresses();
    if (addresses.empty()) GTEST_SKIP() << "a host without a network";
    Job job(2);
    job.meeting.token = token;
    job.meeting.place.host = *host == '\0' ? addresses.front() : host;
    std::thread first([&] { EXPECT_EQ(JoinAndLeave(job.Of(0)), ""); });
    const auto reached = [&](const std::string& at) {
      const auto found = AddressesOf(at, job.meeting.place.port);
      return static_cast<bool>(ConnectTo(found->front(), Clock::now() + kLong).socket);
    };
    EXPECT_TRUE(Becomes([&] { return reached("127.0.0.1"); }));
    EXPECT_EQ(reached(addresses.front()), shown) << token << " " << host;
    EXPECT_EQ(JoinAndLeave(job.Of(1)), "");
    first.join();
  }
}

TEST(Join, WithoutATokenAnotherHostIsRefusedWithWhatToSet) {
  Job job(2);
  job.meeting.token.clear();
  // No host has this address, which is reserved for documentation.
  job.meeting.place = {"192.0.2.1", 29999, {}};
  for (const int rank : {0, 1}) {
    EXPECT_THAT(Ranks::Join(job.Of(rank)).message(),
                AllOf(HasSubstr("rank " + std::to_string(rank)),
                      HasSubstr("set UCUDNN_RENDEZVOUS_TOKEN to the same secret text")));
  }
}

TEST(Join, WithoutATokenAJobOfSeveralHostsIsRefusedOnAll) {
  Job job(4);
  job.meeting.token.clear();
  job.meeting.local_size = 2;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(Ranks::Join(job.Of(rank)).message(),
                AllOf(HasSubstr("rank " + std::to_string(rank)), HasSubstr("4 ranks, 2 of them"),
                      HasSubstr("UCUDNN_RENDEZVOUS_TOKEN")));
  }
}

TEST(Join, AnUnreachableHostIsAnErrorSoon) {
  Job job(2);
  // 224.0.0.1 is a multicast address, to which TCP cannot connect.
  for (const char* const host : {"224.0.0.1", "no-such-host.invalid"}) {
    job.meeting.place = {host, 29999, {}};
    const Clock::time_point begin = Clock::now();
    EXPECT_THAT(Ranks::Join(job.Of(1)).message(),
                HasSubstr("rank 1 cannot join at tcp://" + std::string(host) + ":29999"));
    EXPECT_LT(Clock::now() - begin, Milliseconds(15000));
  }
}

TEST(Join, SensesNoneOfWhatMakesNone) {
  Job job(2);
  Meeting meeting = job.Of(1);
  meeting.membership.rank = 2;
  EXPECT_THAT(Ranks::Join(meeting).message(), HasSubstr("rank 2 cannot join"));
  meeting = job.Of(1);
  meeting.token = std::string(257, 'x');
  EXPECT_THAT(Ranks::Join(meeting).message(), HasSubstr("has 257 bytes, more than 256"));
  meeting.token = "two lines\n";
  EXPECT_THAT(Ranks::Join(meeting).message(), HasSubstr("holds more than ASCII text"));
}

class JoinByFile : public ::testing::Test {
 protected:
  JoinByFile() : job_(3) {
    std::string pattern = ::testing::TempDir() + "/join_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    job_.meeting.place = {{}, 0, folder_ + "/place"};
    job_.meeting.token.clear();
  }
  ~JoinByFile() override { std::filesystem::remove_all(folder_); }
  const std::string& path() const { return job_.meeting.place.path; }
  bool FolderIsEmpty() const { return std::filesystem::is_empty(folder_); }
  std::string folder_;
  Job job_;
};

TEST_F(JoinByFile, MeetsAndLeavesNothingBehind) {
  const auto all = JoinAll(job_);
  EXPECT_EQ(all.size(), 3u);
  EXPECT_TRUE(FolderIsEmpty());
}

TEST_F(JoinByFile, AnEmptyFileIsFilled) {
  std::ofstream(path()).close();
  ASSERT_EQ(chmod(path().c_str(), 0600), 0);
  EXPECT_EQ(JoinAll(job_).size(), 3u);
}

TEST_F(JoinByFile, WhatADeadJobLeftIsReplaced) {
  const uint16_t nobody = FreePort();
  ASSERT_TRUE(WriteMeetingFile(path(), {{"localhost"}, nobody, "old"}).ok());
  EXPECT_EQ(JoinAll(job_).size(), 3u);
  EXPECT_TRUE(FolderIsEmpty());
}

TEST_F(JoinByFile, ItMayNameAPortThatAnotherJobNowHas) {
  const Job other(2);
  std::thread stranger([&] { EXPECT_EQ(JoinAndLeave(other.Of(0)), ""); });
  std::this_thread::sleep_for(Milliseconds(100));
  ASSERT_TRUE(WriteMeetingFile(path(), {{"127.0.0.1"}, other.meeting.place.port, "old"}).ok());
  std::vector<std::unique_ptr<Ranks>> ranks(3);
  OnThreads(3, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(Milliseconds(300));
    auto joined = Ranks::Join(job_.Of(rank));
    ASSERT_TRUE(joined.ok()) << joined.message();
    ranks[static_cast<size_t>(rank)] = std::move(joined.value());
  });
  EXPECT_EQ(JoinAndLeave(other.Of(1)), "");
  stranger.join();
}

TEST_F(JoinByFile, AFileThatOthersMayReadIsRefusedOnAllRanks) {
  ASSERT_TRUE(WriteMeetingFile(path(), {{"127.0.0.1"}, 1, "old"}).ok());
  ASSERT_EQ(chmod(path().c_str(), 0644), 0);
  for (const auto& joined : JoinThese(Meetings(job_))) {
    EXPECT_THAT(joined->message(), HasSubstr(path() + " has mode 0644"));
  }
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(JoinByFile, AFileOfTheUsersIsNotOverwritten) {
  std::ofstream(path()) << "my diary\n";
  ASSERT_EQ(chmod(path().c_str(), 0600), 0);
  for (const auto& joined : JoinThese(Meetings(job_))) {
    EXPECT_THAT(joined->message(), HasSubstr("holds something else: 'my diary"));
  }
}

TEST_F(JoinByFile, AJobThatStillMeetsKeepsItsFile) {
  std::thread first([&] { EXPECT_EQ(JoinAndLeave(job_.Of(0)), ""); });
  EXPECT_TRUE(Becomes([&] { return std::filesystem::exists(path()); }));
  EXPECT_THAT(Ranks::Join(job_.Of(0)).message(), HasSubstr("the ranks of another job meet there"));
  OnThreads(2, [&](int i) { EXPECT_EQ(JoinAndLeave(job_.Of(i + 1)), ""); });
  first.join();
}

TEST_F(JoinByFile, AFailedMeetingLeavesNothingBehind) {
  auto all = Meetings(job_);
  all[1].version = "0";
  EXPECT_THAT(LineOfAll(all), HasSubstr("version"));
  EXPECT_TRUE(FolderIsEmpty());
}

}  // namespace
}  // namespace ucudnn::transport
