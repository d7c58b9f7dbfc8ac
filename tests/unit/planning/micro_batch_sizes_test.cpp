#include "planning/micro_batch_sizes.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "measured.h"
#include "planning/workspace_reuse.h"

namespace ucudnn::planning {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(MicroBatchSizes, UndividedIsTheMiniBatchAlone) {
  EXPECT_THAT(MicroBatchSizes(BatchSizePolicy::kUndivided, 24, 1), ElementsAre(24));
  EXPECT_THAT(MicroBatchSizes(BatchSizePolicy::kUndivided, 24, 16), ElementsAre(24));
}

TEST(MicroBatchSizes, PowersOfTwoAndTheMiniBatch) {
  EXPECT_THAT(MicroBatchSizes(BatchSizePolicy::kPowerOfTwo, 16, 1), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(MicroBatchSizes(BatchSizePolicy::kPowerOfTwo, 24, 1),
              ElementsAre(1, 2, 4, 8, 16, 24));
}

TEST(MicroBatchSizes, AllIsEverySize) {
  EXPECT_THAT(MicroBatchSizes(BatchSizePolicy::kAll, 5, 1), ElementsAre(1, 2, 3, 4, 5));
}

TEST(MicroBatchSizes, StepsLeaveTheirMultiplesAndTheRest) {
  EXPECT_THAT(MicroBatchSizes(BatchSizePolicy::kAll, 11, 4), ElementsAre(3, 4, 8, 11));
  EXPECT_THAT(MicroBatchSizes(BatchSizePolicy::kPowerOfTwo, 27, 4), ElementsAre(3, 4, 8, 16, 27));
}

TEST(MicroBatchSizes, AStepOfTheWholeBatchOrMoreLeavesItUndivided) {
  for (const int step : {8, 16}) {
    EXPECT_THAT(MicroBatchSizes(BatchSizePolicy::kAll, 8, step), ElementsAre(8));
    EXPECT_THAT(MicroBatchSizes(BatchSizePolicy::kPowerOfTwo, 8, step), ElementsAre(8));
  }
}

TEST(MicroBatchSizes, LargestBatchesDoNotOverflow) {
  const int n = std::numeric_limits<int>::max();
  EXPECT_THAT(MicroBatchSizes(BatchSizePolicy::kPowerOfTwo, n, 1), Contains(1 << 30));
}

TEST(MicroBatchSizes, AreRisingAndComposeEveryBatch) {
  for (const BatchSizePolicy policy :
       {BatchSizePolicy::kUndivided, BatchSizePolicy::kPowerOfTwo, BatchSizePolicy::kAll}) {
    for (int n = 1; n <= 100; ++n) {
      for (const int step : {1, 2, 4, 8, 16}) {
        SCOPED_TRACE("n " + std::to_string(n) + " step " + std::to_string(step));
        const std::vector<int> sizes = MicroBatchSizes(policy, n, step);
        ASSERT_EQ(sizes.back(), n);
        ASSERT_GE(sizes.front(), 1);
        ASSERT_EQ(std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()),
                  sizes.end());
        std::vector<MicroConfiguration> measured;
        for (const int size : sizes) {
          EXPECT_TRUE(size % step == 0 || size == n || size == n % step) << size;
          // Small pieces are fastest, so the fastest division has as many pieces as `step` allows.
          measured.push_back({"legacy:0", size, 1.0 * size * size, 0, true});
        }
        const auto configuration = OptimizeWorkspaceReuse(measured, n, step, 0);
        ASSERT_TRUE(configuration);
        if (policy == BatchSizePolicy::kUndivided) continue;
        EXPECT_EQ(configuration->Pieces(), (n + step - 1) / step);
      }
    }
  }
}

}  // namespace
}  // namespace ucudnn::planning
