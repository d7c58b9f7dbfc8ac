// Tests that a failure aborts the rank's channel, whether the channel is published before the
// failure or after it.
#include "spatial/rank_failure.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ucudnn::test {
namespace {

struct CountingChannel : transport::Channel {
  Status Exchange(std::span<const transport::Message>, std::span<const transport::Message>,
                  CUstream) override {
    return Status::Ok();
  }
  Status AllReduce(CUdeviceptr, size_t, transport::Element, CUstream) override {
    return Status::Ok();
  }
  Status Reserve(size_t, size_t) override { return Status::Ok(); }
  size_t device_bytes() const override { return 0; }
  Status Check() override { return Status::Ok(); }
  transport::DeviceProgress Progress() override { return {}; }
  void Abort() override { ++aborts; }

  std::atomic<int> aborts = 0;
};

TEST(RankFailure, AbortsTheChannelThatIsThereAndOneThatComesLater) {
  transport::Meeting meeting;
  meeting.place.path = testing::TempDir() + "ucudnn-rank-failure-" + std::to_string(getpid());
  meeting.version = "test";
  const auto ranks = transport::Ranks::Join(meeting);
  ASSERT_TRUE(ranks.ok()) << ranks.message();
  spatial::RankFailure failure(**ranks, SpatialGrid());
  const spatial::CallRecords records(0, 1);
  CountingChannel channel, late;
  failure.Publish(channel);
  (*ranks)->OnFailure([&](std::string_view line) { failure.Hear(line, records); });
  EXPECT_FALSE(failure.has_failed());
  failure.FailAt(3, "it is a test's");
  failure.AwaitTold();
  EXPECT_TRUE(failure.is_told());
  EXPECT_EQ((*ranks)->Failure(), "rank 0, call 3: it is a test's");
  EXPECT_EQ(channel.aborts, 1);
  failure.Publish(late);
  EXPECT_EQ(late.aborts, 1);
  (*ranks)->OnFailure(nullptr);
}

}  // namespace
}  // namespace ucudnn::test
