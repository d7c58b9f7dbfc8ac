// Tests loopback between processes that share one device of the stand-in. Loopback exists for this
// case. This program never touches CUDA; the ranks are its children.
#include <dirent.h>

#include <cmath>
#include <set>

#include "tests/unit/transport/exchanging_processes.h"
#include "transport/loopback.h"
#include "transport/opening.h"
#include "transport/shared_segment.h"

namespace ucudnn::transport::testing {
namespace {

Result<std::unique_ptr<Channel>> OpenLoopback(const ChannelSetup& setup) {
  Result<OpenedChannel> opened = OpenChannel(setup, Transport::kLoopback, "");
  if (!opened.ok()) return Status::Error(opened.message());
  return std::move(opened->channel);
}

std::set<std::string> SharedMemoryFiles() {
  std::set<std::string> names;
  if (DIR* const folder = opendir("/dev/shm")) {
    while (const dirent* entry = readdir(folder)) {
      // OpenMP run-times of other processes have files with this prefix.
      if (!std::string_view(entry->d_name).starts_with("__KMP_")) names.insert(entry->d_name);
    }
    closedir(folder);
  }
  return names;
}

TEST(LoopbackProcesses, RandomMessagesAndSumsArriveWhateverTheDelays) {
  constexpr int kRounds = 12;
  constexpr size_t kMostBytes = 50000;
  const std::set<std::string> before = SharedMemoryFiles();
  for (int size = 1; size <= 5; ++size) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", ranks " + std::to_string(size));
    const Plan plan(seed, size, kRounds, kMostBytes);
    const std::vector<int> ended = RunProcesses(size, 1, [&](RankProcess& self) {
      return WithChannel(self, OpenLoopback, [&](Channel& channel) {
        EXPECT_TRUE(channel.Reserve(kMostBytes / 2, 400).ok());
        EXPECT_TRUE(channel.Reserve(kMostBytes, 4000).ok());
        ExchangeAndSum(self, channel, plan, seed);
        return kGood;
      });
    });
    for (const int status : ended) EXPECT_TRUE(Exited(status, kGood)) << status;
  }
  EXPECT_EQ(SharedMemoryFiles(), before);
}

// Exchanges and sums until the channel fails. Everything received must be right or NaN.
int ExchangeUntilFailure(RankProcess& self, Channel& channel, unsigned seed) {
  constexpr size_t kBytes = 20000, kCount = 2000;
  constexpr int kMostRounds = 400;
  std::mt19937 random(seed + self.rank);
  const int to = (self.rank + 1) % self.size, from = (self.rank + self.size - 1) % self.size;
  const CUdeviceptr sent = self.device.Allocate(kBytes);
  const CUdeviceptr received = self.device.Allocate(kBytes * kMostRounds);
  const CUdeviceptr sums = self.device.Allocate(kCount * sizeof(float) * kMostRounds);
  self.device.Fill(received, 0xff, kBytes * kMostRounds);
  int round = 0;
  for (; round < kMostRounds; ++round) {
    self.device.Upload(sent, Content(round, self.rank, to, kBytes));
    self.device.Upload(sums + round * kCount * sizeof(float),
                       std::vector<float>(kCount, float(self.rank + round)));
    if (random() % 4 == 0) Delay(self.device.stream, std::chrono::microseconds(random() % 500));
    const Message send{to, sent, kBytes}, receive{from, received + round * kBytes, kBytes};
    const bool good = channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream).ok() &&
                      channel
                          .AllReduce(sums + round * kCount * sizeof(float), kCount,
                                     Element::kFloat32, self.device.stream)
                          .ok();
    // Waits now and then, so that no rank runs far ahead of the others.
    if (round % 8 == 7 && good) cuStreamSynchronize(self.device.stream);
    if (!good || !channel.Check().ok()) break;
  }
  EXPECT_LT(round, kMostRounds) << "no failure was seen";
  if (!Finishes(self.device.stream)) {
    ADD_FAILURE() << "rank " << self.rank << " hangs in round " << round;
    _exit(1);
  }
  const float ranks = self.size;
  for (int done = 0; done < std::min(round + 1, kMostRounds); ++done) {
    const std::vector<unsigned char> expected = Content(done, from, self.rank, kBytes);
    const auto found = self.device.Download<unsigned char>(received + done * kBytes, kBytes);
    for (size_t i = 0; i < kBytes; ++i) {
      if (found[i] == expected[i] || found[i] == 0xff) continue;
      ADD_FAILURE() << "round " << done << " of " << round << ", byte " << i;
      break;
    }
    // The last round's reduction may not have begun. Its buffer then holds the rank's own numbers.
    if (done == round) continue;
    for (const float sum :
         self.device.Download<float>(sums + done * kCount * sizeof(float), kCount)) {
      if (std::isnan(sum) || sum == ranks * done + ranks * (ranks - 1) / 2) continue;
      ADD_FAILURE() << "round " << done << " of " << round << ": " << sum;
      break;
    }
  }
  return kFailed;
}

TEST(LoopbackProcesses, TheOthersEndWhereOneIsKilled) {
  const std::set<std::string> before = SharedMemoryFiles();
  for (int repeat = 0; repeat < 8; ++repeat) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int size = 2 + repeat % 3;
    const int victim = random() % size;
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<int> ended = RunProcesses(size, 1, [&](RankProcess& self) {
      return WithChannel(self, OpenLoopbackChannel, [&](Channel& channel) {
        EXPECT_TRUE(channel.Reserve(20000, 8000).ok());
        if (self.rank == victim) KillSelfLater(random());
        return ExchangeUntilFailure(self, channel, seed);
      });
    });
    ExpectThatOneWasKilled(ended, victim);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
  EXPECT_EQ(SharedMemoryFiles(), before);
}

TEST(LoopbackProcesses, TheOthersEndWhereOneDiesWhileTheChannelOpens) {
  for (const int last_gather : {0, 1, 2, 3, 4}) {
    const std::vector<int> ended = RunProcesses(3, 1, [&](RankProcess& self) {
      struct Dying : Gatherer {
        Gatherer* real = nullptr;
        int left = 0;
        Result<std::vector<std::string>> Gather(std::string_view mine,
                                                std::string_view doing) override {
          if (left-- == 0) kill(getpid(), SIGKILL);
          return real->Gather(mine, doing);
        }
      } dying;
      dying.real = &self.gatherer;
      dying.left = last_gather;
      if (self.rank == 1) self.setup.gatherer = &dying;
      Result<std::unique_ptr<Channel>> channel = OpenLoopbackChannel(self.setup);
      if (!channel.ok()) return kFailed;
      return (*channel)->Reserve(1000, 1000).ok() ? kGood : kFailed;
    });
    ExpectThatOneWasKilled(ended, 1);
  }
}

TEST(LoopbackProcesses, RanksThatShareADeviceAreTold) {
  const std::vector<int> ended = RunProcesses(2, 1, [&](RankProcess& self) {
    const Result<OpenedChannel> opened = OpenChannel(self.setup, Transport::kAuto, "");
    EXPECT_TRUE(opened.ok()) << opened.message();
    if (!opened.ok()) return kFailed;
    EXPECT_EQ(opened->choice.transport, Transport::kLoopback);
    EXPECT_NE(opened->choice.note.find("ranks 0 and 1 share one GPU"), std::string::npos);
    return kGood;
  });
  for (const int status : ended) EXPECT_TRUE(Exited(status, kGood)) << status;
}

// A key opens only memory that is a segment, even if another process has written the key.
TEST(SharedSegments, AKeyOpensASegmentOfItsSizeAndNothingElse) {
  Result<SharedSegment> segment = SharedSegment::Make(5000);
  ASSERT_TRUE(segment.ok()) << segment.message();
  const std::string key = *segment->Key();
  const Result<SharedSegment> other = SharedSegment::Open(key, 5000);
  ASSERT_TRUE(other.ok()) << other.message();
  std::strcpy(segment->data(), "seen");
  EXPECT_STREQ(other->data(), "seen");
  EXPECT_FALSE(SharedSegment::Open(key, 1 << 20).ok());
  EXPECT_FALSE(SharedSegment::Open(key + "1", 5000).ok());
  for (const char* bad : {"", "1 2", "a b c", "1 2 3 4", "-1 0 0", "99999999999999999999 0 0"}) {
    EXPECT_FALSE(SharedSegment::Open(bad, 1).ok()) << bad;
  }
  const std::string process = std::to_string(getpid()) + " ";
  EXPECT_FALSE(SharedSegment::Open(process + "0 1", 1).ok());
  segment->Close();
  EXPECT_FALSE(SharedSegment::Open(key, 5000).ok());
}

}  // namespace
}  // namespace ucudnn::transport::testing
