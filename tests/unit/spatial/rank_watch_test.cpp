// Tests when RankWatch makes the job fail, and what it posts and compares when its rank leaves.
#include "spatial/rank_watch.h"

#include <gtest/gtest.h>

#include "cuda/resources.h"
#include "tests/support/device.h"
#include "tests/unit/spatial/split_layer.h"
#include "tests/unit/transport/job.h"

namespace ucudnn::test {
namespace {

std::vector<std::unique_ptr<transport::Ranks>> TwoRanks() {
  transport::test::Job job(2);
  job.meeting.times.leaving = transport::test::kLong;
  return transport::test::JoinAll(job);
}

class RankWatchTest : public DeviceTest {
 protected:
  const std::vector<std::unique_ptr<transport::Ranks>> ranks = TwoRanks();
  spatial::RankFailure failure{*ranks[0], *SpatialGrid::Parse("h2")};
  std::vector<uint64_t> counted;
  // The watch of rank 0.
  spatial::RankWatch watch{
      *ranks[0], failure, spatial::Patience(milliseconds(0), milliseconds(1)),
      [this](const spatial::DeviceCall& begun) { counted.push_back(begun.call); }};
};

TEST_F(RankWatchTest, ARankThatDoesNotComeFailsTheJob) {
  watch.Start();
  spatial::CallRecord record;
  record.sequence = 1;
  EXPECT_FALSE(watch.calls().records().Add(record, nullptr));
  watch.calls().set_waiting(1);
  ExpectContains(transport::test::FailureOf(*ranks[0]),
                 {"rank 1 (which does: ", "has not come to split call 1 "});
  EXPECT_TRUE(failure.has_failed());
  watch.End();
}

TEST_F(RankWatchTest, ARankThatEndedBeforeACallThatNeedsItFailsTheJob) {
  watch.calls().set_waiting(3);
  watch.HearLeave(1, "3 0");
  EXPECT_FALSE(failure.has_failed());
  watch.calls().set_waiting(4);
  EXPECT_TRUE(watch.FailIfLeftBehind());
  EXPECT_EQ(ranks[0]->Failure(), "rank 1 ended after split call 3, but rank 0 makes call 4");
}

TEST_F(RankWatchTest, ALeavingRankPostsWhatItsDeviceHasBegun) {
  const cuda::Driver& driver = *cuda::GetDriver();
  watch.CountOnDevice(driver);
  cuda::Stream stream(driver);
  ASSERT_TRUE(stream.Create().ok());
  ASSERT_EQ(cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  spatial::DeviceCall call;
  call.call = 7;
  call.is_captured = true;
  const auto point = watch.device_log()->Begin(call, stream.get());
  ASSERT_TRUE(point.ok()) << point.message();
  EXPECT_TRUE(watch.device_log()->End(*point, stream.get()).ok());
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream.get(), &graph), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cuGraphLaunch(exec, stream.get()), CUDA_SUCCESS);
  EXPECT_TRUE(stream.Synchronize().ok());

  std::atomic<int> heard = 0;
  ranks[1]->OnPost([&](int, std::string_view) { ++heard; });
  std::optional<std::string> unequal;
  transport::test::OnThreads(2, [&](int rank) {
    if (rank == 0) {
      unequal = watch.Leave();
    } else {
      ranks[1]->Leave("0 1");
    }
  });
  ranks[1]->OnPost(nullptr);
  EXPECT_EQ(heard, 2);
  EXPECT_EQ(counted, (std::vector<uint64_t>{7, 7}));
  EXPECT_EQ(watch.begun().records().Own(2).call, 7U);
  ExpectContains(unequal.value_or(""),
                 {"rank 0 launched CUDA graphs with 1 split call more than rank 1"});
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ucudnn::test
