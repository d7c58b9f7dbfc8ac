// Tests programs that capture CUDA graphs again and again, for example one for each shape. What
// ranks remember about a graph must be freed with the graph.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/bench/allocation_count.h"
#include "tests/unit/spatial/captured_call.h"

namespace ucudnn::test {
namespace {

TEST(SplitCaptureGrowth, GraphsThatAreDestroyedLeaveNothingOnTheHost) {
  constexpr int kFirst = 30, kMore = 300;
  // A call or a message that a rank kept for each graph would need more bytes than this.
  constexpr long kMostBytesOfOne = 16;
  RankJob job({.exchanges_as_processes = true});
  const SplitLayer layer(Operation::kForward, 4, 3);
  ExpectExactOnAll(job, layer);
  std::barrier meet(job.size());
  long before = 0, after = 0;
  job.OnAll([&](RankState& rank) {
    With(rank, layer, [&](const RunCall& run) {
      const auto capture = [&](int times, long& live_bytes) {
        for (int i = 0; i < times; ++i) {
          const Graph graph(rank, [&] { EXPECT_EQ(run(), kFine); });
        }
        meet.arrive_and_wait();
        if (rank.rank == 0) live_bytes = bench::LiveBytes();
        meet.arrive_and_wait();
      };
      capture(kFirst, before);
      capture(kMore, after);
      return kFine;
    });
  });
  EXPECT_LT(after - before, kMore * job.size() * kMostBytesOfOne);
}

}  // namespace
}  // namespace ucudnn::test
