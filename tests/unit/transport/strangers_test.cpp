// Tests strangers that connect: port scanners, and strangers that send garbage, are slow or are
// silent. The ranks of the job must meet all the same.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <random>

#include "tests/unit/transport/job.h"
#include "transport/hello.h"
#include "transport/sockets.h"

namespace ucudnn::transport {
namespace {

using namespace test;  // NOLINT
using ::testing::HasSubstr;

Descriptor ConnectedTo(const Job& job) {
  return std::move(ConnectTo(LoopbackAddress(job.meeting.place.port), Clock::now() + kLong).socket);
}

void Say(const Descriptor& socket, std::string_view bytes) {
  [[maybe_unused]] const ssize_t sent =
      send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// Returns whether the other side closes within `most` without having said anything.
bool IsDroppedInSilence(const Descriptor& socket, Milliseconds most) {
  pollfd wait = {.fd = socket.get(), .events = POLLIN};
  if (poll(&wait, 1, static_cast<int>(most.count())) != 1) return false;
  char byte;
  return recv(socket.get(), &byte, 1, 0) <= 0;
}

std::string FrameBytes(FrameKind kind, std::string_view body) {
  std::vector<char> bytes;
  AppendFrame(bytes, {kind, 1, body});
  return std::string(bytes.begin(), bytes.end());
}

// Runs rank 0 of a job, which waits for rank 1. At the end rank 1 must be able to join.
class StrangersTest : public ::testing::Test {
 protected:
  StrangersTest()
      : job_(2), first_([this] {
          JoinResult joined = Ranks::Join(job_.Of(0));
          EXPECT_TRUE(joined.ok()) << joined.message();
          if (joined.ok()) ranks_ = std::move(joined.value());
        }) {
    EXPECT_TRUE(Becomes([this] { return static_cast<bool>(ConnectedTo(job_)); }));
  }
  ~StrangersTest() override {
    const Clock::time_point begin = Clock::now();
    const JoinResult joined = Ranks::Join(job_.Of(1));
    EXPECT_TRUE(joined.ok()) << joined.message();
    EXPECT_LT(Clock::now() - begin, Milliseconds(10000));
    first_.join();
    if (ranks_ != nullptr) {
      EXPECT_FALSE(ranks_->Failure());
    }
  }
  Job job_;
  std::unique_ptr<Ranks> ranks_;
  std::thread first_;
};

TEST_F(StrangersTest, AnotherProtocolIsDroppedAtOnce) {
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string("SSH-2.0-OpenSSH_9.2\r\n"),
        std::string(12, '\0'), std::string(100000, '\xff')}) {
    const Descriptor socket = ConnectedTo(job_);
    Say(socket, text);
    EXPECT_TRUE(IsDroppedInSilence(socket, Milliseconds(400))) << text.substr(0, 10);
  }
}

TEST_F(StrangersTest, ASilentOneIsDroppedAfterAWhile) {
  const Descriptor silent = ConnectedTo(job_), slow = ConnectedTo(job_);
  const std::string hello = FrameBytes(FrameKind::kHello, PackHello(job_.Of(1), "secret"));
  const Clock::time_point begin = Clock::now();
  size_t said = 0;
  while (Clock::now() - begin < job_.meeting.times.handshake) {
    if (said < hello.size() / 2) Say(slow, std::string_view(hello).substr(said++, 1));
    std::this_thread::sleep_for(Milliseconds(10));
  }
  EXPECT_TRUE(IsDroppedInSilence(silent, Milliseconds(5000)));
  EXPECT_TRUE(IsDroppedInSilence(slow, Milliseconds(5000)));
}

TEST_F(StrangersTest, OneWithAnotherTokenLearnsThatAndNoMore) {
  for (const char* const token : {"", "secre", "secret2", "Secret"}) {
    const Descriptor socket = ConnectedTo(job_);
    Say(socket, FrameBytes(FrameKind::kHello, PackHello(job_.Of(1), token)));
    char answer[64];
    pollfd wait = {.fd = socket.get(), .events = POLLIN};
    ASSERT_EQ(poll(&wait, 1, 5000), 1);
    ASSERT_EQ(recv(socket.get(), answer, sizeof answer, 0), static_cast<ssize_t>(kFrameHeader));
    EXPECT_EQ(std::string(answer, kFrameHeader), [] {
      std::vector<char> bytes;
      AppendFrame(bytes, {FrameKind::kOtherToken, 0, {}});
      return std::string(bytes.begin(), bytes.end());
    }());
    Say(socket, std::string(100000, 'x'));  // everything that follows is garbage
    EXPECT_TRUE(IsDroppedInSilence(socket, Milliseconds(5000)));
  }
}

TEST_F(StrangersTest, AGreetingIsNoFurtherReadWithoutItsToken) {
  // The hello begins correctly, but its token is wrong. The hello is cut off behind the token, and
  // rank 0 must answer without the rest.
  std::string body = PackHello(job_.Of(1), "wrong");
  body.resize(8 + kLongestToken);
  const Descriptor socket = ConnectedTo(job_);
  Say(socket, FrameBytes(FrameKind::kHello, body));
  pollfd wait = {.fd = socket.get(), .events = POLLIN};
  EXPECT_EQ(poll(&wait, 1, 5000), 1);
}

TEST_F(StrangersTest, CrowdsOfThemDoNotKeepTheRanksOut) {
  std::vector<Descriptor> crowd;
  for (int i = 0; i < 200; ++i) crowd.push_back(ConnectedTo(job_));
  const JoinResult joined = Ranks::Join(job_.Of(1));
  ASSERT_TRUE(joined.ok()) << joined.message();
  first_.join();
  EXPECT_TRUE(joined.value()->Failure() == std::nullopt);
  // The destructor of StrangersTest joins as rank 1, so rank 0 of a new job must wait for rank 1.
  ranks_.reset();
  first_ = std::thread([this] { ranks_ = std::move(Ranks::Join(job_.Of(0)).value()); });
}

TEST_F(StrangersTest, RandomBytesBehindTheRightHeaderAreDropped) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 50; ++i) {
    std::string body(random() % 600, '\0');
    for (char& c : body) c = static_cast<char>(random());
    const Descriptor socket = ConnectedTo(job_);
    Say(socket, FrameBytes(i % 2 == 0 ? FrameKind::kHello : FrameKind::kProbe, body));
    EXPECT_TRUE(IsDroppedInSilence(socket, Milliseconds(5000)));
  }
}

TEST(Strangers, OneWithTheTokenAndNoSenseFailsTheMeetingInOneLine) {
  Job job(2);
  job.meeting.times.refusing = Milliseconds(100);
  std::thread rank([&] {
    EXPECT_THAT(Ranks::Join(job.Of(0)).message(), HasSubstr("knows the token greets rank 0 as no"));
  });
  EXPECT_TRUE(Becomes([&] {
    const Descriptor socket = ConnectedTo(job);
    if (!socket) return false;
    std::string body = PackHello(job.Of(1), "secret");
    body.resize(body.size() - 1);
    Say(socket, FrameBytes(FrameKind::kHello, body));
    std::this_thread::sleep_for(Milliseconds(200));
    return true;
  }));
  rank.join();
}

TEST(Strangers, WhatListensAtTheAddressAndIsNoRankZeroIsAnErrorSoon) {
  const Job job(2);
  ListeningSocket other = ListenAt(Interfaces::kLoopback, job.meeting.place.port);
  ASSERT_TRUE(other.socket);
  std::atomic<bool> stop = false;
  std::atomic<int> mode = 0;  // 0: silent, 1: garbage, 2: closes
  std::thread server([&] {
    std::vector<Descriptor> clients;
    while (!stop) {
      std::this_thread::sleep_for(Milliseconds(5));
      Descriptor client = AcceptFrom(other.socket);
      if (!client || mode == 2) continue;
      if (mode == 1) Say(client, "220 mail.example.org ESMTP\r\n");
      clients.push_back(std::move(client));
    }
  });
  for (mode = 0; mode < 3; ++mode) {
    const Clock::time_point begin = Clock::now();
    EXPECT_THAT(Ranks::Join(job.Of(1)).message(),
                HasSubstr("rank 1 cannot join at " + job.meeting.place.Text()));
    EXPECT_LT(Clock::now() - begin, Milliseconds(8000));
    EXPECT_THAT(Ranks::Join(job.Of(0)).message(), HasSubstr("rank 0 cannot listen"));
  }
  stop = true;
  server.join();
}

}  // namespace
}  // namespace ucudnn::transport
