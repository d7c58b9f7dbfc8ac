// Tests which transport is chosen for which ranks, and the facts that a rank sends about itself.
#include "transport/choice.h"

#include <gtest/gtest.h>

#include "tests/support/device.h"

namespace ucudnn::transport {
namespace {

struct Place {
  const char *host, *process, *device;
};

std::vector<RankFacts> Ranks(Transport wanted, const std::vector<Place>& places) {
  std::vector<RankFacts> ranks;
  for (const Place& place : places) {
    ranks.push_back({place.host, place.process, place.device, wanted});
  }
  return ranks;
}

const std::vector<Place> kOneRank = {{"a", "1", "x"}};
const std::vector<Place> kProcessesWithGpus = {{"a", "1", "x"}, {"a", "2", "y"}, {"a", "3", "z"}};
const std::vector<Place> kProcessesOnOneGpu = {{"a", "1", "x"}, {"a", "2", "y"}, {"a", "3", "x"}};
const std::vector<Place> kThreadsWithGpus = {{"a", "1", "x"}, {"a", "1", "y"}};
const std::vector<Place> kThreadsOnOneGpu = {{"a", "1", "x"}, {"a", "1", "x"}};
// Equal process numbers on different hosts are different processes.
const std::vector<Place> kHosts = {{"a", "1", "x"}, {"b", "1", "y"}};
const std::vector<Place> kContainersOnOneGpu = {{"a", "1", "x"}, {"b", "1", "x"}};
const std::vector<Place> kMixed = {{"a", "1", "x"}, {"a", "1", "y"}, {"a", "2", "z"}};
const std::vector<Place> kThreadsOnOneGpuAndAProcess = {
    {"a", "1", "x"}, {"a", "1", "x"}, {"a", "2", "x"}};

struct Row {
  Transport wanted;
  const std::vector<Place>& places;
  Transport chosen;   // kAuto: the choice is refused
  const char* words;  // words of the refusal or of the note
};

TEST(ChooseTransport, FollowsTheTable) {
  const Row table[] = {
      {Transport::kAuto, kOneRank, Transport::kPeer, ""},
      {Transport::kAuto, kProcessesWithGpus, Transport::kNccl, ""},
      {Transport::kAuto, kProcessesOnOneGpu, Transport::kLoopback, "they exchange by loopback"},
      {Transport::kAuto, kThreadsWithGpus, Transport::kPeer, ""},
      {Transport::kAuto, kThreadsOnOneGpu, Transport::kPeer, "they exchange by peer"},
      {Transport::kAuto, kHosts, Transport::kNccl, ""},
      {Transport::kAuto, kContainersOnOneGpu, Transport::kAuto, "ranks 0 and 1 share one GPU"},
      {Transport::kAuto, kMixed, Transport::kNccl, ""},
      {Transport::kAuto, kThreadsOnOneGpuAndAProcess, Transport::kAuto,
       "ranks 0 and 1 are threads of one process with one GPU, and ranks 0 and 2 are different"},
      {Transport::kNccl, kOneRank, Transport::kNccl, ""},
      {Transport::kNccl, kProcessesWithGpus, Transport::kNccl, ""},
      {Transport::kNccl, kProcessesOnOneGpu, Transport::kAuto, "which NCCL refuses"},
      {Transport::kNccl, kThreadsWithGpus, Transport::kNccl, ""},
      {Transport::kNccl, kThreadsOnOneGpu, Transport::kAuto, "ranks 0 and 1 share one GPU"},
      {Transport::kPeer, kThreadsWithGpus, Transport::kPeer, ""},
      {Transport::kPeer, kThreadsOnOneGpu, Transport::kAuto, "share one GPU"},
      {Transport::kPeer, kMixed, Transport::kAuto, "ranks 0 and 2 are different processes"},
      {Transport::kPeer, kHosts, Transport::kAuto, "ranks 0 and 1 are different processes"},
      {Transport::kLoopback, kOneRank, Transport::kPeer, ""},
      {Transport::kLoopback, kProcessesOnOneGpu, Transport::kLoopback, ""},
      {Transport::kLoopback, kThreadsOnOneGpu, Transport::kPeer, ""},
      {Transport::kLoopback, kThreadsWithGpus, Transport::kPeer, ""},
      {Transport::kLoopback, kMixed, Transport::kLoopback, ""},
      {Transport::kLoopback, kThreadsOnOneGpuAndAProcess, Transport::kAuto, "with one GPU"},
      {Transport::kLoopback, kHosts, Transport::kAuto, "different hosts"},
  };
  for (const Row& row : table) {
    const Result<Choice> choice = ChooseTransport(Ranks(row.wanted, row.places));
    SCOPED_TRACE(std::string(TransportName(row.wanted)) + ", row " + std::to_string(&row - table));
    ASSERT_EQ(choice.ok(), row.chosen != Transport::kAuto);
    const std::string words = choice.ok() ? choice->note : choice.message();
    EXPECT_NE(words.find(row.words), std::string::npos) << words;
    EXPECT_EQ(words.empty(), *row.words == '\0') << words;
    if (choice.ok()) {
      EXPECT_STREQ(TransportName(choice->transport), TransportName(row.chosen));
    }
  }
}

TEST(ChooseTransport, RefusesRanksThatWantDifferentOnes) {
  std::vector<RankFacts> ranks = Ranks(Transport::kNccl, kProcessesWithGpus);
  ranks[1].wanted = Transport::kLoopback;
  const Result<Choice> choice = ChooseTransport(ranks);
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.message(), "rank 0 wants the transport nccl and rank 1 wants loopback");
}

TEST(RankFacts, SurviveBeingGathered) {
  const RankFacts facts{"host 1", "2", "device 3", Transport::kLoopback};
  const Result<RankFacts> read = RankFacts::Parse(facts.Text());
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->Text(), facts.Text());
}

TEST(RankFacts, RefuseWhatTheyDoNotUnderstand) {
  for (const char* text : {"", "a\nb\nc", "a\nb\nc\nteleport", "a\nb\nc\nnccl\nd"}) {
    EXPECT_FALSE(RankFacts::Parse(text).ok()) << text;
  }
}

class OwnFactsTest : public test::DeviceTest {};

TEST_F(OwnFactsTest, TellDevicesOfOneProcessApart) {
  const Result<RankFacts> first = OwnFacts(*cuda::GetDriver(), Transport::kAuto);
  const Result<RankFacts> again = OwnFacts(*cuda::GetDriver(), Transport::kAuto);
  ASSERT_TRUE(first.ok()) << first.message();
  EXPECT_EQ(first->Text(), again->Text());
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(other), CUDA_SUCCESS);
  const Result<RankFacts> second = OwnFacts(*cuda::GetDriver(), Transport::kAuto);
  ASSERT_TRUE(second.ok()) << second.message();
  EXPECT_EQ(first->host, second->host);
  EXPECT_EQ(first->process, second->process);
  EXPECT_NE(first->device, second->device);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ucudnn::transport
