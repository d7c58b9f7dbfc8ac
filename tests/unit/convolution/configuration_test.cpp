#include "convolution/configuration.h"

#include <gtest/gtest.h>

namespace ucudnn {
namespace {

const Configuration kMixed{
    {{{"legacy:1", 32, 2.0, 100, true}, 3}, {{"legacy:0", 5, 1.5, 0, false}, 1}}};

TEST(Configuration, PiecesRunOneAfterTheOtherInOneWorkspace) {
  EXPECT_EQ(kMixed.Pieces(), 4);
  EXPECT_EQ(kMixed.Images(), 101);
  EXPECT_DOUBLE_EQ(kMixed.TimeMs(), 7.5);
  EXPECT_EQ(kMixed.WorkspaceBytes(), 100u);
}

TEST(Configuration, OnePieceThatIsNotDeterministicMakesTheWholeSo) {
  EXPECT_FALSE(kMixed.Deterministic());
  EXPECT_TRUE(Configuration{{kMixed.runs[0]}}.Deterministic());
}

TEST(Configuration, TheLargestPieceIsTheOneWithMostImages) {
  EXPECT_EQ(kMixed.Largest().engine, "legacy:1");
  EXPECT_EQ((Configuration{{kMixed.runs[1], kMixed.runs[0]}}.Largest().engine), "legacy:1");
}

}  // namespace
}  // namespace ucudnn
