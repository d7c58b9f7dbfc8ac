// Tests the channel over NCCL, on the stand-in's NCCL: between threads, and between processes with
// a device each. This program touches CUDA only in its children and in threads that are ranks.
#include "transport/nccl.h"

#include <unistd.h>

#include <cmath>
#include <limits>

#include "tests/unit/transport/exchanging_processes.h"
#include "transport/opening.h"

namespace ucudnn::transport::testing {
namespace {

// OpenNcclChannel looks for NCCL in the folder of this file.
constexpr const char* kCudnnFile = HOST_DIR "/libcudnn.so.9";

class NcclChannels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(HOST_DIR "/libnccl.so.2", R_OK) != 0) {
      GTEST_SKIP() << "there is no stand-in for NCCL in " HOST_DIR;
    }
  }
};

Result<std::unique_ptr<Channel>> OpenNccl(const ChannelSetup& setup) {
  Result<OpenedChannel> opened = OpenChannel(setup, Transport::kNccl, kCudnnFile);
  if (!opened.ok()) return Status::Error(opened.message());
  return std::move(opened->channel);
}

template <class Rank>
void ReserveExchangeAndSum(Rank& self, Channel& channel, const Plan& plan, unsigned seed) {
  const Status reserved = channel.Reserve(50000, 4000);
  ASSERT_TRUE(reserved.ok()) << reserved.message();
  ExchangeAndSum(self, channel, plan, seed);
}

// Runs before all tests with threads, because it forks, and the process must not have touched CUDA.
TEST_F(NcclChannels, AProcesses_ExchangeAndSum) {
  for (int size = 1; size <= 4; ++size) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", ranks " + std::to_string(size));
    const Plan plan(seed, size, 10, 50000);
    const std::vector<int> ended = RunProcesses(size, 5, [&](RankProcess& self) {
      return WithChannel(self, OpenNccl, [&](Channel& channel) {
        ReserveExchangeAndSum(self, channel, plan, seed);
        return kGood;
      });
    });
    for (const int status : ended) EXPECT_TRUE(Exited(status, kGood)) << status;
  }
}

TEST_F(NcclChannels, AProcesses_EndWhereOneIsKilled) {
  for (int repeat = 0; repeat < 4; ++repeat) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::vector<int> ended = RunProcesses(3, 5, [&](RankProcess& self) {
      return WithChannel(self, OpenNccl, [&](Channel& channel) {
        EXPECT_TRUE(channel.Reserve(1000, 4000).ok());
        if (self.rank == 1) KillSelfLater(seed);
        const CUdeviceptr data = self.device.Allocate(2000);
        const int to = (self.rank + 1) % 3, from = (self.rank + 2) % 3;
        const Message send{to, data, 1000}, receive{from, data + 1000, 1000};
        self.device.Upload(data, Content(0, self.rank, to, 1000));
        const auto fails = [&] {
          self.device.Fill(data + 1000, 0xff, 1000);
          return !channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream).ok() ||
                 !Finishes(self.device.stream) || !channel.Check().ok();
        };
        EXPECT_TRUE(Becomes(fails, milliseconds(10000)));
        const std::vector<unsigned char> found =
            self.device.Download<unsigned char>(data + 1000, 1000);
        const std::vector<unsigned char> expected = Content(0, from, self.rank, 1000);
        for (size_t i = 0; i < 1000; ++i) EXPECT_TRUE(found[i] == expected[i] || found[i] == 0xff);
        return kFailed;
      });
    });
    ExpectThatOneWasKilled(ended, 1);
  }
}

TEST_F(NcclChannels, Threads_ExchangeAndSum) {
  for (int size = 1; size <= 5; ++size) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", ranks " + std::to_string(size));
    const Plan plan(seed, size, 10, 50000);
    RunChannels(size, 5, OpenNccl, [&](RankThread& self, Channel& channel) {
      ReserveExchangeAndSum(self, channel, plan, seed);
    });
  }
}

// NCCL chooses the order of additions. Each of the n - 1 additions rounds by at most half an eps of
// its sum. So in any order the result differs from the exact sum by at most (n - 1) eps/2 times the
// sum of the magnitudes.
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
    RunChannels(size, 5, OpenNccl, [&](RankThread& self, Channel& channel) {
      ASSERT_TRUE(channel.Reserve(0, kCount * sizeof(float)).ok());
      const CUdeviceptr data = self.device.Allocate(kCount * sizeof(float));
      self.device.Upload(data, numbers_of(self.rank));
      ASSERT_TRUE(channel.AllReduce(data, kCount, Element::kFloat32, self.device.stream).ok());
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
  RunChannels(2, 2, OpenNccl, [&](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(1000, 4000).ok());
    const CUdeviceptr data = self.device.Allocate(8000);
    self.device.Fill(data, 0xff, 8000);
    if (self.rank == 0) {
      const Message receive{1, data, 1000};
      self.device.Upload(data + 4000, std::vector<float>(1000, 1));
      ASSERT_TRUE(channel.Exchange({}, {&receive, 1}, self.device.stream).ok());
      ASSERT_TRUE(channel.AllReduce(data + 4000, 1000, Element::kFloat32, self.device.stream).ok());
      channel.Abort();
      EXPECT_EQ(self.device.Download<unsigned char>(data, 1000),
                std::vector<unsigned char>(1000, 0xff));
      for (const float sum : self.device.Download<float>(data + 4000, 1000)) {
        EXPECT_TRUE(std::isnan(sum));
      }
    } else {
      channel.Abort();
    }
    const Message send{1 - self.rank, data, 1000};
    EXPECT_TRUE(Fails(channel));
    EXPECT_FALSE(channel.Exchange({&send, 1}, {}, self.device.stream).ok());
    EXPECT_FALSE(channel.AllReduce(data, 1, Element::kFloat32, self.device.stream).ok());
  });
}

TEST_F(NcclChannels, Threads_RanksThatShareADeviceAreRefusedBeforeNcclIs) {
  RunRanks(2, 1, [&](RankThread& self) {
    const Result<OpenedChannel> opened = OpenChannel(self.setup, Transport::kNccl, kCudnnFile);
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.message().find("share one GPU"), std::string::npos) << opened.message();
  });
}

// Rank 1 never joins NCCL's communicator.
TEST_F(NcclChannels, Threads_OpeningEndsInTime) {
  RunRanks(2, 2, [&](RankThread& self) {
    struct Missing : Gatherer {  // gathers for both ranks, since rank 1 does nothing
      int rank = 0;
      std::vector<std::string> answers;
      Result<std::vector<std::string>> Gather(std::string_view mine, std::string_view) override {
        const std::string text(mine);
        // Rank 1's text is "+" (no error), or the first line of rank 0's, which has the version.
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
