#include "convolution/exchange_slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ucudnn {
namespace {

constexpr unsigned kSlicesSeed = 5;

bool Fits(int64_t images, const std::vector<SliceDemand>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const SliceDemand& rank) {
    return images * rank.bytes_per_image <= std::max<int64_t>(0, rank.limit_bytes);
  });
}

// The fewest slices whose sizes, all but the last, are multiples of `step`; 0 where none fit.
int64_t FewestSlices(int64_t images, int64_t step, const std::vector<SliceDemand>& ranks) {
  if (Fits(images, ranks)) return 1;
  int64_t fewest = 0;
  for (int64_t size = step; size < images; size += step) {
    if (Fits(size, ranks)) fewest = (images + size - 1) / size;
  }
  return fewest;
}

TEST(ImagesPerSlice, AreTheFewestSlicesThatFitEveryRankAndEqualOnes) {
  std::mt19937 random(kSlicesSeed);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  int refused = 0, sliced = 0;
  for (int round = 0; round < 20000; ++round) {
    const int64_t images = draw(1, 40), step = draw(1, 5);
    std::vector<SliceDemand> ranks(draw(1, 5));
    for (SliceDemand& rank : ranks) {
      rank = {draw(0, 9) == 0 ? 0 : draw(1, 20), draw(0, 19) == 0 ? 0 : draw(20, 400)};
    }
    const int64_t fewest = FewestSlices(images, step, ranks);
    const auto size = ImagesPerSlice(images, step, ranks);
    ASSERT_EQ(size.ok(), fewest > 0) << "seed " << kSlicesSeed << ", round " << round;
    if (!size.ok()) {
      ++refused;
      continue;
    }
    ASSERT_TRUE(Fits(*size, ranks)) << "seed " << kSlicesSeed << ", round " << round;
    ASSERT_TRUE(*size == images || *size % step == 0);
    ASSERT_EQ((images + *size - 1) / *size, fewest) << "seed " << kSlicesSeed;
    // Slices of one step less would be more.
    ASSERT_TRUE(*size <= step || (images + *size - step - 1) / (*size - step) > fewest);
    sliced += fewest > 1 ? 1 : 0;
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(sliced, 1000);
}

TEST(ImagesPerSlice, ALimitBelowOneImageIsRefusedWithTheRank) {
  const std::vector<SliceDemand> ranks = {{1 << 20, 1 << 20}, {2 << 20, 1 << 20}};
  const auto size = ImagesPerSlice(8, 1, ranks);
  ASSERT_FALSE(size.ok());
  EXPECT_EQ(size.message(),
            "rank 1 of the group needs 2 MiB for each image of an exchange of at least 1, but its "
            "limit is 1 MiB");
}

TEST(ImagesPerSlice, ARankThatExchangesNothingNeedsNoRoom) {
  EXPECT_EQ(*ImagesPerSlice(8, 1, std::vector<SliceDemand>{{0, 0}, {1, 4}}), 4);
  EXPECT_EQ(*ImagesPerSlice(8, 1, std::vector<SliceDemand>{{0, -1}, {0, 0}}), 8);
}

}  // namespace
}  // namespace ucudnn
