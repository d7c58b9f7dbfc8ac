// Tests aborted channels: nothing hangs, and a receive buffer into which nothing arrived cannot be
// mistaken for one with data.
#include <dirent.h>
#include <pthread.h>

#include <cmath>
#include <fstream>
#include <future>
#include <system_error>

#include "tests/unit/transport/exchanging_ranks.h"
#include "transport/loopback.h"
#include "transport/peer.h"

namespace ucudnn::transport::testing {
namespace {

using Clock = std::chrono::steady_clock;
struct AbortedWay {
  const char* name;
  Open open;
  int devices;
};

class AbortedChannels : public ::testing::TestWithParam<AbortedWay> {
 protected:
  static void Run(int size, const std::function<void(RankThread&, Channel&)>& body) {
    RunChannels(size, GetParam().devices, GetParam().open, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, AbortedChannels,
                         ::testing::Values(AbortedWay{"peer_one_device", OpenPeerChannel, 1},
                                           AbortedWay{"peer_five_devices", OpenPeerChannel, 5},
                                           AbortedWay{"loopback", OpenLoopbackChannel, 5}),
                         [](const auto& way) { return way.param.name; });

// Returns whether each byte is what was sent, or 0xff, which nobody sends.
bool IsContentOrNan(const std::vector<unsigned char>& found,
                    const std::vector<unsigned char>& content) {
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != content[i] && found[i] != 0xff) return false;
  }
  return true;
}

TEST_P(AbortedChannels, ARankThatWaitsForOneThatNeverComesIsLetGo) {
  Run(2, [](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(64, 0).ok());
    const CUdeviceptr data = self.device.Allocate(128);
    self.device.Fill(data, 0xff, 128);
    const Message send{1 - self.rank, data, 64}, receive{1 - self.rank, data + 64, 64};
    // Leaves old numbers in the channel's memory. The aborted exchange must not deliver them.
    for (int round = 0; round < 5; ++round) {
      self.device.Upload(data, Content(round, self.rank, 1 - self.rank, 64));
      ASSERT_TRUE(channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream).ok());
    }
    ASSERT_EQ(cuStreamSynchronize(self.device.stream), CUDA_SUCCESS);
    self.device.Fill(data + 64, 0xff, 64);
    std::thread aborting;
    if (self.rank == 0) {
      aborting = std::thread([&channel] {
        std::this_thread::sleep_for(milliseconds(50));
        channel.Abort();
      });
      (void)channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream);
      aborting.join();
      EXPECT_TRUE(Finishes(self.device.stream));
      EXPECT_EQ(self.device.Download<unsigned char>(data + 64, 64),
                std::vector<unsigned char>(64, 0xff));
    }
    // Rank 1, which did not call Exchange again, must learn of the abort, too.
    EXPECT_TRUE(Fails(channel));
    EXPECT_FALSE(channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream).ok());
    EXPECT_FALSE(channel.AllReduce(data, 4, Element::kFloat32, self.device.stream).ok());
    EXPECT_TRUE(Finishes(self.device.stream));
  });
}

TEST_P(AbortedChannels, WhatIsReceivedWhileOneRankAbortsIsRightOrNan) {
  constexpr int kSize = 3, kRounds = 30;
  constexpr size_t kMostBytes = 30000;
  for (int repeat = 0; repeat < 15; ++repeat) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Plan plan(seed, kSize, kRounds, kMostBytes);
    Run(kSize, [&](RankThread& self, Channel& channel) {
      ASSERT_TRUE(channel.Reserve(kMostBytes, 0).ok());
      std::mt19937 random(seed + self.rank);
      std::vector<Round> rounds;
      for (int round = 0; round < kRounds; ++round) {
        rounds.emplace_back(self.device, plan, round, self.rank, kSize);
      }
      ASSERT_EQ(cuStreamSynchronize(self.device.stream), CUDA_SUCCESS);
      // Rank 0 aborts first. The others abort soon after, as the control plane would make them.
      const auto moment =
          std::chrono::microseconds(self.rank == 0 ? random() % 4000 : 4000 + random() % 2000);
      std::thread aborting([&] {
        std::this_thread::sleep_for(moment);
        channel.Abort();
      });
      for (Round& round : rounds) {
        if (random() % 4 == 0) Delay(self.device.stream, std::chrono::microseconds(random() % 300));
        if (!channel.Exchange(round.sends, round.receives, self.device.stream).ok()) break;
      }
      aborting.join();
      EXPECT_TRUE(Finishes(self.device.stream));
      for (int round = 0; round < kRounds; ++round) {
        for (const Message& message : rounds[round].receives) {
          EXPECT_TRUE(
              IsContentOrNan(self.device.Download<unsigned char>(message.data, message.bytes),
                             Content(round, message.peer, self.rank, message.bytes)))
              << "round " << round << " from " << message.peer << " to " << self.rank;
        }
      }
    });
  }
}

TEST_P(AbortedChannels, AReductionThatIsAbortedIsRightOrNan) {
  constexpr int kSize = 3, kRounds = 20;
  constexpr size_t kCount = 20000;
  for (int repeat = 0; repeat < 10; ++repeat) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    Run(kSize, [&](RankThread& self, Channel& channel) {
      ASSERT_TRUE(channel.Reserve(0, kCount * sizeof(float)).ok());
      std::mt19937 random(seed + self.rank);
      const CUdeviceptr data = self.device.Allocate(kCount * sizeof(float) * kRounds);
      for (int round = 0; round < kRounds; ++round) {
        self.device.Upload(data + round * kCount * sizeof(float),
                           std::vector<float>(kCount, float(round + self.rank)));
      }
      ASSERT_EQ(cuStreamSynchronize(self.device.stream), CUDA_SUCCESS);
      const auto moment =
          std::chrono::microseconds(self.rank == 1 ? random() % 6000 : 6000 + random() % 2000);
      std::thread aborting([&] {
        std::this_thread::sleep_for(moment);
        channel.Abort();
      });
      int reduced = 0;
      for (; reduced < kRounds; ++reduced) {
        if (!channel
                 .AllReduce(data + reduced * kCount * sizeof(float), kCount, Element::kFloat32,
                            self.device.stream)
                 .ok()) {
          break;
        }
      }
      aborting.join();
      EXPECT_TRUE(Finishes(self.device.stream));
      for (int round = 0; round < std::min(reduced + 1, kRounds); ++round) {
        const float sum = 3 * round + 3;
        for (const float found :
             self.device.Download<float>(data + round * kCount * sizeof(float), kCount)) {
          if (found == sum || std::isnan(found)) continue;
          ADD_FAILURE() << "round " << round << " of " << reduced << ": " << found;
          break;
        }
      }
    });
  }
}

TEST_P(AbortedChannels, MessagesOfAnotherSizeThanExpectedAreNoneAndAnErrorThatNamesTheRanks) {
  Run(2, [](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(64, 0).ok());
    const CUdeviceptr data = self.device.Allocate(128);
    self.device.Upload(data, Content(0, self.rank, 1 - self.rank, 64));
    self.device.Fill(data + 64, 0xff, 64);
    const Message send{1 - self.rank, data, self.rank == 0 ? size_t{32} : size_t{64}};
    const Message receive{1 - self.rank, data + 64, 64};
    const Status status = channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream);
    EXPECT_TRUE(Fails(channel));
    const Status found = status.ok() ? channel.Check() : status;
    ASSERT_FALSE(found.ok());
    EXPECT_NE(found.message().find("rank "), std::string::npos) << found.message();
    channel.Abort();
    EXPECT_TRUE(Finishes(self.device.stream));
    if (self.rank == 1) {
      EXPECT_EQ(self.device.Download<unsigned char>(data + 64, 64),
                std::vector<unsigned char>(64, 0xff));
    }
  });
}

TEST_P(AbortedChannels, ChannelsOfRanksThatLeaveAtDifferentTimesEnd) {
  RunRanks(3, GetParam().devices, [](RankThread& self) {
    Result<std::unique_ptr<Channel>> channel = GetParam().open(self.setup);
    ASSERT_TRUE(channel.ok()) << channel.message();
    ASSERT_TRUE((*channel)->Reserve(64, 4000).ok());
    const CUdeviceptr data = self.device.Allocate(4000);
    self.device.Fill(data, 0, 4000);
    ASSERT_TRUE((*channel)->AllReduce(data, 1000, Element::kFloat32, self.device.stream).ok());
    if (self.rank == 1) std::this_thread::sleep_for(milliseconds(100));
    channel->reset();
    EXPECT_EQ(self.device.Download<float>(data, 1000), std::vector<float>(1000));
  });
}

TEST(PeerChannel, ARankThatDoesNotComeInTimeIsNamed) {
  RunRanks(2, 1, [](RankThread& self) {
    self.setup.timeout = milliseconds(100);
    const Result<std::unique_ptr<Channel>> channel = OpenPeerChannel(self.setup);
    ASSERT_TRUE(channel.ok()) << channel.message();
    if (self.rank == 0) {
      const Message receive{1, self.device.Allocate(64), 64};
      const auto begin = Clock::now();
      const Status status = (*channel)->Exchange({}, {&receive, 1}, self.device.stream);
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.message().find("rank 1 did not come"), std::string::npos)
          << status.message();
      EXPECT_GE(Clock::now() - begin, milliseconds(100));
    }
    Await(self);
  });
}

TEST(PeerChannel, ARankThatHasLeftIsNamed) {
  RunChannels(2, 1, OpenPeerChannel, [](RankThread& self, Channel& channel) {
    if (self.rank == 1) {
      std::this_thread::sleep_for(milliseconds(20));
      return;  // returning closes the channel
    }
    const Message receive{1, self.device.Allocate(64), 64};
    const Status status = channel.Exchange({}, {&receive, 1}, self.device.stream);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find("rank 1 has left"), std::string::npos) << status.message();
  });
}

TEST_P(AbortedChannels, OpeningEndsWhenTheMeetingFails) {
  RunRanks(2, GetParam().devices, [](RankThread& self) {
    if (self.rank == 1) {
      std::this_thread::sleep_for(milliseconds(20));
      self.meeting.Fail();
      return;
    }
    EXPECT_FALSE(GetParam().open(self.setup).ok());
  });
}

// While an object of this class lives, no thread can start, because the default size of a stack
// exceeds the address space.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t without = before_;
    EXPECT_EQ(pthread_attr_setstacksize(&without, size_t{1} << 47), 0);
    EXPECT_EQ(pthread_setattr_default_np(&without), 0);
    EXPECT_THROW(std::thread([] {}), std::system_error);
  }
  ~NoThreads() { EXPECT_EQ(pthread_setattr_default_np(&before_), 0); }

 private:
  pthread_attr_t before_;
};

// An abort may run in a callback of the service thread, which sends no heartbeats during the
// callback. So the abort must not wait for a stream.
TEST(LoopbackChannel, AnAbortWaitsForNoStreamWhereNoThreadStarts) {
  RunChannels(2, 2, OpenLoopbackChannel, [](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(64, 0).ok());
    if (self.rank == 0) {
      const CUdeviceptr data = self.device.Allocate(64);
      std::atomic<bool> is_busy{true};
      const auto work = [](void* busy) {
        while (*static_cast<std::atomic<bool>*>(busy)) std::this_thread::yield();
      };
      ASSERT_EQ(cuLaunchHostFunc(self.device.stream, work, &is_busy), CUDA_SUCCESS);
      const Message receive{1, data, 64};
      ASSERT_TRUE(channel.Exchange({}, {&receive, 1}, self.device.stream).ok());
      std::promise<void> aborted;
      std::thread aborting([&] {
        const NoThreads none;
        channel.Abort();
        aborted.set_value();
      });
      EXPECT_EQ(aborted.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
      is_busy = false;
      aborting.join();
      EXPECT_TRUE(Finishes(self.device.stream));
    }
    Await(self);
  });
}

size_t OpenFiles() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (folder && readdir(folder)) ++count;
  closedir(folder);
  return count;
}

size_t SharedMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:ucudnn") != std::string::npos;
  }
  return count;
}

TEST(LoopbackChannel, LeavesNothingBehind) {
  // These ranks open the files of the stand-in's devices before files are counted.
  RunRanks(3, 3, [](RankThread& self) { self.device.Allocate(4000); });
  const size_t files = OpenFiles();
  for (const bool aborted : {false, true}) {
    RunChannels(3, 3, OpenLoopbackChannel, [&](RankThread& self, Channel& channel) {
      ASSERT_TRUE(channel.Reserve(1000, 4000).ok());
      const CUdeviceptr data = self.device.Allocate(4000);
      self.device.Fill(data, 0, 4000);
      ASSERT_TRUE(channel.AllReduce(data, 1000, Element::kFloat32, self.device.stream).ok());
      ASSERT_EQ(cuStreamSynchronize(self.device.stream), CUDA_SUCCESS);
      EXPECT_GT(SharedMappings(), 0u);
      if (!aborted) return;
      Await(self);
      const Message receive{(self.rank + 1) % 3, data, 1000};
      (void)channel.Exchange({}, {&receive, 1}, self.device.stream);
      channel.Abort();
    });
    EXPECT_EQ(OpenFiles(), files);
    // A thread of a channel may still be releasing its mappings.
    EXPECT_TRUE(Becomes([] { return SharedMappings() == 0; }, milliseconds(5000)));
  }
}

}  // namespace
}  // namespace ucudnn::transport::testing
