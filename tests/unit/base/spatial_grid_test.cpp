#include "base/spatial_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ucudnn {
namespace {

SpatialGrid GridOf(const char* text) {
  const auto grid = SpatialGrid::Parse(text);
  EXPECT_TRUE(grid.ok()) << grid.message();
  return grid.ok() ? *grid : SpatialGrid{};
}

TEST(SpatialGrid, ReadsThePartsOfEachAxis) {
  EXPECT_EQ(GridOf("h4"), (SpatialGrid{.h = 4}));
  EXPECT_EQ(GridOf("h2w2"), (SpatialGrid{.h = 2, .w = 2}));
  EXPECT_EQ(GridOf("d2h3w5"), (SpatialGrid{.d = 2, .h = 3, .w = 5}));
  EXPECT_EQ(GridOf("n2h4"), (SpatialGrid{.n = 2, .h = 4}));
  EXPECT_EQ(GridOf("n1h2"), (SpatialGrid{.h = 2}));
  EXPECT_EQ(GridOf("w4096"), (SpatialGrid{.w = 4096}));
}

TEST(SpatialGrid, IsWrittenInOneOrderHoweverItWasRead) {
  EXPECT_EQ(GridOf(" w2H4n3 ").Text(), "n3h4w2");
  EXPECT_EQ(GridOf("h4w1d1").Text(), "h4");
  for (const char* text : {"h4", "h2w2", "d2h2w2", "n2h4", "n3d2h2w2", "w7"}) {
    EXPECT_EQ(GridOf(text).Text(), text);
    EXPECT_EQ(GridOf(GridOf(text).Text().c_str()), GridOf(text));
  }
  EXPECT_EQ(SpatialGrid().Text(), "h1");
}

struct RefusedGrid {
  const char* text;
  const char* reason;
};

class SpatialGridRefusal : public ::testing::TestWithParam<RefusedGrid> {};

TEST_P(SpatialGridRefusal, SaysWhatIsWrongAndWhatIsRightInOneLine) {
  const auto grid = SpatialGrid::Parse(GetParam().text);
  ASSERT_FALSE(grid.ok()) << grid->Text();
  EXPECT_THAT(grid.message(), testing::HasSubstr(GetParam().reason));
  EXPECT_THAT(grid.message(), testing::HasSubstr(kSpatialGridForm));
  EXPECT_THAT(grid.message(), testing::Not(testing::HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(
    SpatialGrid, SpatialGridRefusal,
    ::testing::Values(
        RefusedGrid{"", "it names no axis"}, RefusedGrid{" ", "it names no axis"},
        RefusedGrid{"4", "'4' is no axis"}, RefusedGrid{"x4", "'x' is no axis"},
        RefusedGrid{"h2\nw2", "'\\x0a' is no axis"}, RefusedGrid{"h2 w2", "' ' is no axis"},
        RefusedGrid{"h2,w2", "',' is no axis"}, RefusedGrid{"h2.5", "'.' is no axis"},
        RefusedGrid{"h", "no number of parts"}, RefusedGrid{"hw", "no number of parts"},
        RefusedGrid{"h-2", "no number of parts"}, RefusedGrid{"h+2", "no number of parts"},
        RefusedGrid{"h2H2", "h comes twice"}, RefusedGrid{"h0", "h has 0 parts"},
        RefusedGrid{"h1", "it cuts no image"}, RefusedGrid{"n8", "it cuts no image"},
        RefusedGrid{"h4097", "more than 4096 ranks"},
        RefusedGrid{"n2h4096", "more than 4096 ranks"},
        RefusedGrid{"n4096d4096h4096w4096", "more than 4096 ranks"},
        RefusedGrid{"h99999999999999999999", "more than 4096 ranks"}));

TEST(SpatialGrid, NumbersItsCellsTheLastAxisFastest) {
  const SpatialGrid grid = {.n = 2, .d = 3, .h = 2, .w = 4};
  EXPECT_EQ(grid.Ranks(), 48);
  int rank = 0;
  for (int n = 0; n < 2; ++n) {
    for (int d = 0; d < 3; ++d) {
      for (int h = 0; h < 2; ++h) {
        for (int w = 0; w < 4; ++w, ++rank) {
          EXPECT_EQ(grid.CellOf(rank), (GridCell{n, d, h, w}));
          EXPECT_EQ(grid.RankOf({n, d, h, w}), rank);
        }
      }
    }
  }
}

TEST(SpatialGrid, TheRanksOfAGroupHoldTheCellsOfOneN) {
  const SpatialGrid grid = {.n = 3, .h = 2, .w = 2};
  EXPECT_EQ(grid.Groups(), 3);
  EXPECT_EQ(grid.GroupSize(), 4);
  std::set<int> ranks;
  for (int group = 0; group < grid.Groups(); ++group) {
    for (int group_rank = 0; group_rank < grid.GroupSize(); ++group_rank) {
      const int rank = grid.RankInGroup(group, group_rank);
      EXPECT_EQ(grid.CellOf(rank).n, group);
      EXPECT_EQ(grid.GroupOf(rank), group);
      EXPECT_EQ(grid.GroupRankOf(rank), group_rank);
      // The cell's h and w depend on the group rank alone.
      EXPECT_EQ(grid.CellOf(rank).h, group_rank / 2);
      EXPECT_EQ(grid.CellOf(rank).w, group_rank % 2);
      ranks.insert(rank);
    }
  }
  EXPECT_EQ(ranks.size(), 12u);
}

}  // namespace
}  // namespace ucudnn
