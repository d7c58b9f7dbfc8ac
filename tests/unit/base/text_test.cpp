#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::ElementsAre;

TEST(Text, TrimRemovesSpaceAtBothEndsOnly) {
  EXPECT_EQ(Trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(Trim(" \r\n"), "");
  EXPECT_EQ(Trim(""), "");
}

TEST(Text, EqualsIgnoreCaseComparesWholeTexts) {
  EXPECT_TRUE(EqualsIgnoreCase("powerOfTwo", "POWEROFTWO"));
  EXPECT_FALSE(EqualsIgnoreCase("power", "powerOfTwo"));
  EXPECT_FALSE(EqualsIgnoreCase("[", "{"));
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_THAT(Split("a::b:", ':'), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(Split("", ':'), ElementsAre(""));
}

TEST(Text, JoinUndoesSplit) {
  EXPECT_EQ(Join(Split("a::b:", ':'), ":"), "a::b:");
  EXPECT_EQ(Join({}, ","), "");
}

TEST(Text, QuotedShowsUnprintableBytesAndCutsLongTexts) {
  EXPECT_EQ(Quoted(std::string("a\0\x1b\xff", 4)), "'a\\x00\\x1b\\xff'");
  EXPECT_EQ(Quoted(std::string(100, 'a')), "'" + std::string(60, 'a') + "...'");
  EXPECT_EQ(Quoted(std::string(60, 'a')), "'" + std::string(60, 'a') + "'");
}

TEST(Text, NearestNameFindsMisspellings) {
  const std::vector<std::string> names = {"stride_h", "stride_w", "groups"};
  EXPECT_EQ(NearestName("strideh", names), "stride_h");
  EXPECT_EQ(NearestName("Stride_W", names), "stride_w");
  EXPECT_EQ(NearestName("group", names), "groups");
}

TEST(Text, NearestNameGivesNothingWhenAllAreFar) {
  EXPECT_EQ(NearestName("velocity", {"stride_h", "n"}), "");
  EXPECT_EQ(NearestName(std::string(100000, 'n'), {"n"}), "");
  EXPECT_EQ(NearestName("x", {}), "");
}

}  // namespace
}  // namespace ucudnn
