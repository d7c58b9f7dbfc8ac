// Tests what peer and loopback channels have in common, with all ranks in one process: messages
// arrive whole and in the order of the streams, sums have the same bits on all ranks, and misuse
// and a lack of memory are errors. Also tests that OpenChannel opens a peer channel for such ranks.
#include "transport/channel.h"

#include <cmath>

#include "tests/unit/transport/exchanging_ranks.h"
#include "transport/loopback.h"
#include "transport/opening.h"
#include "transport/ordered_reduction.h"
#include "transport/peer.h"

namespace ucudnn::transport::testing {
namespace {

struct Way {
  const char* name;
  Open open;
  int devices;
};

constexpr Way kWays[] = {
    {"peer_one_device", OpenPeerChannel, 1},
    {"peer_five_devices", OpenPeerChannel, 5},
    {"loopback_five_devices", OpenLoopbackChannel, 5},
};

class Channels : public ::testing::TestWithParam<Way> {
 protected:
  static void Run(int size, const std::function<void(RankThread&, Channel&)>& body) {
    RunChannels(size, GetParam().devices, GetParam().open, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, Channels, ::testing::ValuesIn(kWays),
                         [](const auto& way) { return way.param.name; });

TEST_P(Channels, RandomMessagesArriveWholeWhateverTheDelays) {
  constexpr int kRounds = 12;
  constexpr size_t kMostBytes = 50000;
  for (int size = 1; size <= 5; ++size) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", ranks " + std::to_string(size));
    const Plan plan(seed, size, kRounds, kMostBytes);
    Run(size, [&](RankThread& self, Channel& channel) {
      std::mt19937 random(seed + self.rank);
      ASSERT_TRUE(channel.Reserve(kMostBytes, 0).ok());
      std::vector<Round> rounds;
      for (int round = 0; round < kRounds; ++round) {
        rounds.emplace_back(self.device, plan, round, self.rank, size);
        if (random() % 3 == 0) Delay(self.device.stream, std::chrono::microseconds(random() % 800));
        if (random() % 4 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 800));
        const Round& now = rounds.back();
        const Status status = channel.Exchange(now.sends, now.receives, self.device.stream);
        ASSERT_TRUE(status.ok()) << status.message();
        now.RewriteSent(self.device);
      }
      ExpectArrived(self.device, rounds, self.rank);
      EXPECT_TRUE(channel.Check().ok());
    });
  }
}

TEST_P(Channels, CallsKeepTheirOrderOverSeveralStreams) {
  Run(2, [&](RankThread& self, Channel& channel) {
    constexpr int kRounds = 20;
    constexpr size_t kBytes = 4096;
    ASSERT_TRUE(channel.Reserve(kBytes, 0).ok());
    cuda::Stream other(*self.setup.driver);
    ASSERT_TRUE(other.Create().ok());
    const CUdeviceptr sent = self.device.Allocate(kBytes * kRounds);
    const CUdeviceptr received = self.device.Allocate(kBytes * kRounds);
    const int peer = 1 - self.rank;
    for (int round = 0; round < kRounds; ++round) {
      self.device.Upload(sent + kBytes * round, Content(round, self.rank, peer, kBytes));
    }
    ASSERT_EQ(cuStreamSynchronize(self.device.stream), CUDA_SUCCESS);
    for (int round = 0; round < kRounds; ++round) {
      const CUstream stream = (round + self.rank) % 2 == 0 ? self.device.stream : other.get();
      if (round % 3 == self.rank) Delay(stream, std::chrono::microseconds(500));
      const Message send{peer, sent + kBytes * round, kBytes};
      const Message receive{peer, received + kBytes * round, kBytes};
      ASSERT_TRUE(channel.Exchange({&send, 1}, {&receive, 1}, stream).ok());
    }
    ASSERT_TRUE(other.Synchronize().ok());
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(self.device.Download<unsigned char>(received + kBytes * round, kBytes),
                Content(round, peer, self.rank, kBytes));
    }
  });
}

// The host enqueues 1000 calls ahead of the streams, far more than a channel has slots for.
TEST_P(Channels, AHostMayBeFarAheadOfItsStream) {
  Run(2, [&](RankThread& self, Channel& channel) {
    constexpr int kRounds = 1000;
    ASSERT_TRUE(channel.Reserve(4, 0).ok());
    const CUdeviceptr words = self.device.Allocate(8);
    self.device.Upload(words, std::vector<uint32_t>{uint32_t(self.rank), 7});
    if (self.rank == 1) Delay(self.device.stream, milliseconds(20));
    const Message send{1 - self.rank, words, 4}, receive{1 - self.rank, words + 4, 4};
    for (int round = 0; round < kRounds; ++round) {
      ASSERT_TRUE(channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream).ok());
    }
    EXPECT_EQ(self.device.Download<uint32_t>(words, 2)[1], uint32_t(1 - self.rank));
  });
}

// Makes a held stream wait until `passing` exceeds `number`.
struct Gate {
  const std::atomic<int>& passing;
  int number;
};

void Hold(CUstream stream, const std::atomic<int>& passing, int number) {
  const auto wait = [](void* argument) {
    const std::unique_ptr<Gate> gate(static_cast<Gate*>(argument));
    while (gate->passing <= gate->number) std::this_thread::sleep_for(milliseconds(1));
  };
  EXPECT_EQ(cuLaunchHostFunc(stream, wait, new Gate{passing, number}), CUDA_SUCCESS);
}

TEST_P(Channels, TellHowTheDeviceGetsOnWithALongQueue) {
  Run(2, [&](RankThread& self, Channel& channel) {
    constexpr int kRounds = 200;
    ASSERT_TRUE(channel.Reserve(4, 0).ok());
    EXPECT_FALSE(channel.Progress().is_pending);
    const CUdeviceptr words = self.device.Allocate(8);
    const Message send{1 - self.rank, words, 4}, receive{1 - self.rank, words + 4, 4};
    std::atomic<int> passing = 0;
    for (int round = 0; round < kRounds; ++round) {
      Hold(self.device.stream, passing, round);
      EXPECT_TRUE(channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream).ok());
    }
    uint64_t reached = channel.Progress().reached;
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(channel.Progress().reached, reached);
    for (passing = kRounds / 4; passing < kRounds; passing += kRounds / 4) {
      EXPECT_TRUE(
          Becomes([&] { return channel.Progress().reached > reached; }, milliseconds(10000)));
      EXPECT_TRUE(channel.Progress().is_pending);
      reached = channel.Progress().reached;
    }
    passing = kRounds;
    ASSERT_EQ(cuStreamSynchronize(self.device.stream), CUDA_SUCCESS);
    EXPECT_FALSE(channel.Progress().is_pending);
  });
}

TEST_P(Channels, RoomGrowsWithLargerMessages) {
  Run(3, [&](RankThread& self, Channel& channel) {
    int round = 0;
    for (const size_t bytes : {100, 5000, 40, 70000, 70000}) {
      ASSERT_TRUE(channel.Reserve(bytes, 0).ok());
      const int to = (self.rank + 1) % 3, from = (self.rank + 2) % 3;
      const Message send{to, self.device.Allocate(bytes), bytes};
      const Message receive{from, self.device.Allocate(bytes), bytes};
      self.device.Upload(send.data, Content(++round, self.rank, to, bytes));
      ASSERT_TRUE(channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream).ok());
      EXPECT_EQ(self.device.Download<unsigned char>(receive.data, bytes),
                Content(round, from, self.rank, bytes));
    }
  });
}

// Sums whole numbers, which add without rounding, and expects the exact sums.
template <class Value>
void ExpectExactSum(RankThread& self, Channel& channel, Element element, size_t count) {
  std::vector<Value> mine(count), sum(count);
  for (size_t i = 0; i < count; ++i) {
    mine[i] = static_cast<Value>((self.rank + 1) * (i % 97));
    const auto of_ranks = self.size * (self.size + 1) / 2;
    sum[i] = static_cast<Value>(of_ranks * (i % 97));
  }
  const CUdeviceptr data = self.device.Allocate(count * sizeof(Value));
  self.device.Upload(data, mine);
  const Status status = channel.AllReduce(data, count, element, self.device.stream);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(self.device.Download<Value>(data, count) == sum) << count;
}

TEST_P(Channels, ReductionsSumOverAllRanks) {
  for (int size = 1; size <= 5; ++size) {
    Run(size, [&](RankThread& self, Channel& channel) {
      ASSERT_TRUE(channel.Reserve(0, 8 * 5000).ok());
      for (const size_t count : {1, 3, 129, 5000}) {
        ExpectExactSum<float>(self, channel, Element::kFloat32, count);
        ExpectExactSum<double>(self, channel, Element::kFloat64, count);
      }
    });
  }
}

TEST_P(Channels, AReductionOfSeveralPiecesNeedsRoomForOne) {
  Run(3, [&](RankThread& self, Channel& channel) {
    const size_t count = kReductionPieceBytes / sizeof(float) * 2 + 1000;
    ASSERT_TRUE(channel.Reserve(0, count * sizeof(float)).ok());
    EXPECT_LE(channel.device_bytes(), kReductionPieceBytes + 3 * 512);
    ExpectExactSum<float>(self, channel, Element::kFloat32, count);
  });
}

// The numbers differ so much in magnitude that the bits of their sum depend on its order.
TEST_P(Channels, ReductionsAddInTheOrderOfTheRanks) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr int kSize = 4;
  constexpr size_t kCount = 3000;
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> exponent(-20, 20);
  std::vector<std::vector<float>> numbers(kSize, std::vector<float>(kCount));
  for (auto& of_rank : numbers) {
    for (float& number : of_rank) number = std::exp2(exponent(random)) * (random() % 2 ? 1 : -1);
  }
  std::vector<float> sum = numbers[0];
  for (int rank = 1; rank < kSize; ++rank) {
    for (size_t i = 0; i < kCount; ++i) sum[i] += numbers[rank][i];
  }
  Run(kSize, [&](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(0, kCount * sizeof(float)).ok());
    const CUdeviceptr data = self.device.Allocate(kCount * sizeof(float));
    self.device.Upload(data, numbers[self.rank]);
    ASSERT_TRUE(channel.AllReduce(data, kCount, Element::kFloat32, self.device.stream).ok());
    const std::vector<float> found = self.device.Download<float>(data, kCount);
    EXPECT_EQ(std::memcmp(found.data(), sum.data(), kCount * sizeof(float)), 0);
  });
}

TEST_P(Channels, ExchangesAndReductionsAlternate) {
  Run(3, [&](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(64, 1000 * sizeof(float)).ok());
    const CUdeviceptr halo = self.device.Allocate(128), data = self.device.Allocate(4000);
    for (int round = 0; round < 10; ++round) {
      const int to = (self.rank + 1) % 3, from = (self.rank + 2) % 3;
      self.device.Upload(halo, Content(round, self.rank, to, 64));
      self.device.Upload(data, std::vector<float>(1000, float(self.rank + round)));
      const Message send{to, halo, 64}, receive{from, halo + 64, 64};
      ASSERT_TRUE(channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream).ok());
      ASSERT_TRUE(channel.AllReduce(data, 1000, Element::kFloat32, self.device.stream).ok());
      EXPECT_EQ(self.device.Download<unsigned char>(halo + 64, 64),
                Content(round, from, self.rank, 64));
      EXPECT_EQ(self.device.Download<float>(data, 1000),
                std::vector<float>(1000, float(3 + 3 * round)));
    }
  });
}

TEST_P(Channels, RefuseMessagesThatMakeNoSense) {
  for (const int fault : {0, 1, 2, 3, 4}) {
    Run(2, [&](RankThread& self, Channel& channel) {
      ASSERT_TRUE(channel.Reserve(64, 0).ok());
      const CUdeviceptr data = self.device.Allocate(64);
      const int peer = 1 - self.rank;
      std::vector<Message> sends = {{peer, data, 64}};
      if (fault == 0) sends[0].peer = 2;
      if (fault == 1) sends[0].peer = self.rank;
      if (fault == 2) sends[0].bytes = 0;
      if (fault == 3) sends[0].data = 0;
      if (fault == 4) sends.push_back(sends[0]);
      const Status status = channel.Exchange(sends, {}, self.device.stream);
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.message().find("rank " + std::to_string(self.rank)), std::string::npos)
          << status.message();
      EXPECT_FALSE(channel.Exchange({}, {}, self.device.stream).ok());
    });
  }
}

TEST_P(Channels, RefuseAReductionWithoutRoom) {
  Run(2, [&](RankThread& self, Channel& channel) {
    const CUdeviceptr data = self.device.Allocate(4000);
    self.device.Fill(data, 0, 4000);
    EXPECT_FALSE(channel.AllReduce(data, 1000, Element::kFloat32, self.device.stream).ok());
    // The buffer must hold NaN, so that the program cannot mistake its content for a sum.
    EXPECT_EQ(self.device.Download<unsigned char>(data, 4000),
              std::vector<unsigned char>(4000, 0xff));
  });
}

TEST_P(Channels, FailOnAllRanksWhereOneHasNoRoom) {
  Run(3, [&](RankThread& self, Channel& channel) {
    WithoutNextAllocation(self, [&] {
      const Status status = channel.Reserve(100, 100000);
      EXPECT_FALSE(status.ok());
      EXPECT_NE(status.message().find("rank "), std::string::npos) << status.message();
    });
    EXPECT_TRUE(channel.Reserve(100, 100000).ok());
    ExpectExactSum<float>(self, channel, Element::kFloat32, 1000);
  });
}

TEST_P(Channels, KeepTheRoomThatTheyHadWhereThereIsNoMore) {
  Run(3, [&](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(100, 4000).ok());
    ExpectExactSum<float>(self, channel, Element::kFloat32, 1000);
    WithoutNextAllocation(self, [&] { EXPECT_FALSE(channel.Reserve(100, 400000).ok()); });
    ExpectExactSum<float>(self, channel, Element::kFloat32, 1000);
  });
}

TEST(OpenChannel, TakesPeerCopiesWithinAProcess) {
  for (const int devices : {1, 3}) {
    RunRanks(3, devices, [&](RankThread& self) {
      const Result<OpenedChannel> opened = OpenChannel(self.setup, Transport::kAuto, "");
      ASSERT_TRUE(opened.ok()) << opened.message();
      EXPECT_EQ(opened->choice.transport, Transport::kPeer);
      EXPECT_EQ(opened->choice.note.empty(), devices == 3);
      ASSERT_TRUE(opened->channel->Reserve(0, 4000).ok());
      ExpectExactSum<float>(self, *opened->channel, Element::kFloat32, 1000);
    });
  }
}

TEST(OpenChannel, RefusesOnAllRanksWhatTheyWantDifferently) {
  RunRanks(2, 2, [&](RankThread& self) {
    const Result<OpenedChannel> opened =
        OpenChannel(self.setup, self.rank == 0 ? Transport::kPeer : Transport::kAuto, "");
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.message(), "rank 0 wants the transport peer and rank 1 wants auto");
  });
}

}  // namespace
}  // namespace ucudnn::transport::testing
