// Tests that a failure aborts the rank's channel, whether the channel is published before the
// failure or after it.
#include "spatial/rank_failure.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/spatial/idle_channel.h"

namespace ucudnn::test {
namespace {

TEST(RankFailure, AbortsTheChannelThatIsThereAndOneThatComesLater) {
  transport::Meeting meeting;
  meeting.place.path = testing::TempDir() + "ucudnn-rank-failure-" + std::to_string(getpid());
  meeting.version = "test";
  const auto ranks = transport::Ranks::Join(meeting);
  ASSERT_TRUE(ranks.ok()) << ranks.message();
  spatial::RankFailure failure(**ranks, SpatialGrid());
  const spatial::CallRecords records(0, 1);
  IdleChannel channel, late;
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
