// Tests the channel over NCCL, on the stand-in's NCCL: between threads, and between processes with
// a device each. Outside of its children and of ranks that are threads this program never touches
// CUDA.
#include "transport/nccl.h"

#include <unistd.h>

#include <cmath>
#include <limits>

#include "tests/unit/transport/exchanging_processes.h"
#include "transport/opening.h"

namespace ucudnn::transport::testing {
namespace {

constexpr int kGood = 0, kFailed = 2;
// NCCL lies in cuDNN's folder.
constexpr const char* kCudnnFile = HOST_DIR "/libcudnn.so.9";

class NcclChannels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(HOST_DIR "/libnccl.so.2", R_OK) != 0) {
      GTEST_SKIP() << "there is no stand-in for NCCL in " HOST_DIR;
    }
  }
};

template <class Rank>
std::unique_ptr<Channel> Opened(const Rank& self) {
  Result<OpenedChannel> opened = OpenChannel(self.setup, Transport::kNccl, kCudnnFile);
  EXPECT_TRUE(opened.ok()) << opened.message();
  return opened.ok() ? std::move(opened->channel) : nullptr;
}

template <class Rank>
void ExchangeAndSum(Rank& self, Channel& channel, const Plan& plan, unsigned seed) {
  std::mt19937 random(seed + self.rank);
  const Status reserved = channel.Reserve(50000, 4000);
  ASSERT_TRUE(reserved.ok()) << reserved.message();
  const CUdeviceptr numbers = self.device.Allocate(4000 * plan.rounds());
  std::vector<Round> rounds;
  for (int round = 0; round < plan.rounds(); ++round) {
    rounds.emplace_back(self.device, plan, round, self.rank, self.size);
    self.device.Upload(numbers + 4000 * round,
                       std::vector<float>(1000, float(self.rank * 10 + round)));
    if (random() % 3 == 0) Delay(self.device.stream, std::chrono::microseconds(random() % 800));
    const Round& now = rounds.back();
    const Status status = channel.Exchange(now.sends, now.receives, self.device.stream);
    ASSERT_TRUE(status.ok()) << status.message();
    now.RewriteSent(self.device);
    const Status reduced =
        channel.AllReduce(numbers + 4000 * round, 1000, Element::kFloat32, self.device.stream);
    ASSERT_TRUE(reduced.ok()) << reduced.message();
  }
  ExpectArrived(self.device, rounds, self.rank);
  for (int round = 0; round < plan.rounds(); ++round) {
    EXPECT_EQ(self.device.template Download<float>(numbers + 4000 * round, 1000),
              std::vector<float>(1000, float(5 * self.size * (self.size - 1) + self.size * round)));
  }
  const Status checked = channel.Check();
  EXPECT_TRUE(checked.ok()) << checked.message();
}

// Runs before all tests with threads: children are forked from a process without CUDA.
TEST_F(NcclChannels, AProcesses_ExchangeAndSum) {
  for (int size = 1; size <= 4; ++size) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", ranks " + std::to_string(size));
    const Plan plan(seed, size, 10, 50000);
    const std::vector<int> ended = RunProcesses(size, 5, [&](RankProcess& self) {
      const std::unique_ptr<Channel> channel = Opened(self);
      if (channel == nullptr) return kFailed;
      self.gatherer.Guard(channel.get());
      ExchangeAndSum(self, *channel, plan, seed);
      self.gatherer.Guard(nullptr);
      return kGood;
    });
    for (const int status : ended) EXPECT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status)) << status;
  }
}

TEST_F(NcclChannels, AProcesses_EndWhereOneIsKilled) {
  for (int repeat = 0; repeat < 4; ++repeat) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::vector<int> ended = RunProcesses(3, 5, [&](RankProcess& self) {
      const std::unique_ptr<Channel> channel = Opened(self);
      if (channel == nullptr) return 1;
      self.gatherer.Guard(channel.get());
      EXPECT_TRUE(channel->Reserve(1000, 4000).ok());
      if (self.rank == 1) {
        std::thread([time = std::chrono::microseconds(seed % 20000)] {
          std::this_thread::sleep_for(time);
          kill(getpid(), SIGKILL);
        }).detach();
      }
      const CUdeviceptr data = self.device.Allocate(2000);
      const int to = (self.rank + 1) % 3, from = (self.rank + 2) % 3;
      const Message send{to, data, 1000}, receive{from, data + 1000, 1000};
      self.device.Upload(data, Content(0, self.rank, to, 1000));
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      bool good = true;
      while (good && std::chrono::steady_clock::now() < deadline) {
        self.device.Fill(data + 1000, 0xff, 1000);
        good = channel->Exchange({&send, 1}, {&receive, 1}, self.device.stream).ok() &&
               channel->Check().ok();
        while (good && cuStreamQuery(self.device.stream) != CUDA_SUCCESS) {
          good = channel->Check().ok() && std::chrono::steady_clock::now() < deadline;
        }
      }
      EXPECT_FALSE(good);
      const std::vector<unsigned char> found =
          self.device.Download<unsigned char>(data + 1000, 1000);
      const std::vector<unsigned char> expected = Content(0, from, self.rank, 1000);
      for (size_t i = 0; i < 1000; ++i) EXPECT_TRUE(found[i] == expected[i] || found[i] == 0xff);
      self.gatherer.Guard(nullptr);
      return kFailed;
    });
    for (const int rank : {0, 2}) {
      EXPECT_TRUE(WIFEXITED(ended[rank]) && WEXITSTATUS(ended[rank]) == kFailed) << ended[rank];
    }
    EXPECT_TRUE(WIFSIGNALED(ended[1])) << ended[1];
  }
}

TEST_F(NcclChannels, Threads_ExchangeAndSum) {
  for (int size = 1; size <= 5; ++size) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", ranks " + std::to_string(size));
    const Plan plan(seed, size, 10, 50000);
    RunRanks(size, 5, [&](RankThread& self) {
      const std::unique_ptr<Channel> channel = Opened(self);
      ASSERT_NE(channel, nullptr);
      ExchangeAndSum(self, *channel, plan, seed);
    });
  }
}

// NCCL chooses the order of additions. In any order n - 1 additions, each within half an eps of its
// exact sum, are off by at most (n - 1) eps/2 of the sum of the magnitudes.
TEST_F(NcclChannels, Threads_SumsOfAnyNumbersAreWithinTheBoundOfTheirRounding) {
  constexpr size_t kCount = 1000;
  for (int size = 2; size <= 5; ++size) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", ranks " + std::to_string(size));
    const auto numbers_of = [&](int rank) {
      std::mt19937 random(seed + static_cast<unsigned>(rank));
      std::uniform_real_distribution<float> mantissa(-1, 1);
      std::vector<float> numbers(kCount);
      for (float& number : numbers) {
        number = std::ldexp(mantissa(random), static_cast<int>(random() % 24));
      }
      return numbers;
    };
    std::vector<double> sum(kCount, 0), magnitude(kCount, 0);  // in the order of the ranks
    for (int rank = 0; rank < size; ++rank) {
      const std::vector<float> numbers = numbers_of(rank);
      for (size_t i = 0; i < kCount; ++i) {
        sum[i] += numbers[i];
        magnitude[i] += std::fabs(numbers[i]);
      }
    }
    RunRanks(size, 5, [&](RankThread& self) {
      const std::unique_ptr<Channel> channel = Opened(self);
      ASSERT_NE(channel, nullptr);
      ASSERT_TRUE(channel->Reserve(0, kCount * sizeof(float)).ok());
      const CUdeviceptr data = self.device.Allocate(kCount * sizeof(float));
      self.device.Upload(data, numbers_of(self.rank));
      ASSERT_TRUE(channel->AllReduce(data, kCount, Element::kFloat32, self.device.stream).ok());
      const std::vector<float> found = self.device.Download<float>(data, kCount);
      const double half_eps = std::numeric_limits<float>::epsilon() / 2;
      for (size_t i = 0; i < kCount; ++i) {
        EXPECT_LE(std::fabs(found[i] - sum[i]), (size - 1) * half_eps * magnitude[i])
            << "number " << i << " on rank " << self.rank;
      }
    });
  }
}

TEST_F(NcclChannels, Threads_AnAbortLetsStreamsGoAndLeavesNan) {
  RunRanks(2, 2, [&](RankThread& self) {
    const std::unique_ptr<Channel> channel = Opened(self);
    ASSERT_NE(channel, nullptr);
    ASSERT_TRUE(channel->Reserve(1000, 4000).ok());
    const CUdeviceptr data = self.device.Allocate(8000);
    self.device.Fill(data, 0xff, 8000);
    if (self.rank == 0) {
      const Message receive{1, data, 1000};
      self.device.Upload(data + 4000, std::vector<float>(1000, 1));
      ASSERT_TRUE(channel->Exchange({}, {&receive, 1}, self.device.stream).ok());
      ASSERT_TRUE(
          channel->AllReduce(data + 4000, 1000, Element::kFloat32, self.device.stream).ok());
      channel->Abort();
      EXPECT_EQ(self.device.Download<unsigned char>(data, 1000),
                std::vector<unsigned char>(1000, 0xff));
      for (const float sum : self.device.Download<float>(data + 4000, 1000)) {
        EXPECT_TRUE(std::isnan(sum));
      }
    } else {
      channel->Abort();
    }
    const Message send{1 - self.rank, data, 1000};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (channel->Check().ok() && std::chrono::steady_clock::now() < deadline) {
    }
    EXPECT_FALSE(channel->Exchange({&send, 1}, {}, self.device.stream).ok());
    EXPECT_FALSE(channel->AllReduce(data, 1, Element::kFloat32, self.device.stream).ok());
  });
}

TEST_F(NcclChannels, Threads_RanksThatShareADeviceAreRefusedBeforeNcclIs) {
  RunRanks(2, 1, [&](RankThread& self) {
    const Result<OpenedChannel> opened = OpenChannel(self.setup, Transport::kNccl, kCudnnFile);
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.message().find("share one GPU"), std::string::npos) << opened.message();
  });
}

// One rank never comes to NCCL's own meeting.
TEST_F(NcclChannels, Threads_OpeningEndsInTime) {
  RunRanks(2, 2, [&](RankThread& self) {
    struct Missing : Gatherer {  // gathers for two ranks; the other one does nothing
      int rank = 0;
      std::vector<std::string> answers;
      Result<std::vector<std::string>> Gather(std::string_view mine, std::string_view) override {
        const std::string text(mine);
        // The other rank has a version, and all goes well.
        return std::vector<std::string>{text,
                                        text == "+" ? text : text.substr(0, text.find('\n') + 1)};
      }
    } missing;
    if (self.rank == 1) return;
    self.setup.gatherer = &missing;
    self.setup.timeout = milliseconds(300);
    const auto begin = std::chrono::steady_clock::now();
    const Result<std::unique_ptr<Channel>> channel = OpenNcclChannel(self.setup, kCudnnFile);
    ASSERT_FALSE(channel.ok());
    EXPECT_NE(channel.message().find("did not connect"), std::string::npos) << channel.message();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  });
}

}  // namespace
}  // namespace ucudnn::transport::testing
