// Tests when a kernel is cut into tiles, case by case.
#include "planning/decision/tile_use.h"

#include <gtest/gtest.h>

#include "planning/decision/facts.h"
#include "tests/support/problem.h"

namespace ucudnn::planning {
namespace {

using test::ProblemWith;

constexpr size_t kKiB = 1024, kMiB = kKiB * kKiB;

// x and y have 32 * 256 * 256 * 4 bytes = 8 MiB each.
ConvolutionProblem Image(Layout layout = Layout::kNchw, int n = 1) {
  return ProblemWith({.n = n, .c = 32, .k = 32, .x = {1, 256, 256}, .layout = layout});
}

TEST(IsVast, CountsFromTheFirstElementOfAnImageToTheLast) {
  // An image has 32 channels of 2^26 elements each, 2^31 together.
  const ConvolutionProblem exactly = ProblemWith({.n = 4, .c = 32, .k = 1, .x = {1, 8192, 8192}});
  EXPECT_TRUE(IsVast(exactly));
  EXPECT_FALSE(IsVast(exactly, int64_t{1} << 31));
  EXPECT_FALSE(IsVast(ProblemWith({.n = 4, .c = 31, .k = 1, .x = {1, 8192, 8192}})));
  EXPECT_TRUE(IsVast(ProblemWith({.n = 1, .c = 1, .k = 32, .x = {1, 8192, 8192}}))) << "y is";
  // An image is vast if its own elements lie far apart; a large distance between images is not
  // enough.
  ConvolutionProblem sparse = ProblemWith({.n = 2, .c = 4, .k = 4, .x = {1, 16, 16}});
  sparse.x_strides[0] = int64_t{1} << 31;
  EXPECT_FALSE(IsVast(sparse));
  sparse.x_strides[1] = int64_t{1} << 30;
  EXPECT_TRUE(IsVast(sparse));
}

TEST(UseOfTiles, FollowsLimitPolicyAndSize) {
  using Policy = BatchSizePolicy;
  struct Case {
    const char* when;
    ConvolutionProblem problem;
    TileConditions conditions;
    TileUse use;
  };
  const ConvolutionProblem nchw = Image(), nhwc = Image(Layout::kNhwc);
  const ConvolutionProblem large = ProblemWith({.n = 1, .c = 128, .k = 128, .x = {1, 4096, 4096}});
  const Case cases[] = {
      {"the limit excludes what would run",
       nchw,
       {true, Policy::kAuto, 20 * kMiB, 4 * kMiB, 0},
       TileUse::kToFit},
      {"with channels last, too",
       nhwc,
       {true, Policy::kAuto, 20 * kMiB, 4 * kMiB, 0},
       TileUse::kToFit},
      {"policy powerOfTwo", nchw, {true, Policy::kPowerOfTwo, 5, 4, 0}, TileUse::kToFit},
      {"policy all", nchw, {true, Policy::kAll, 5, 4, 0}, TileUse::kToFit},
      {"no workspace is allowed", nchw, {true, Policy::kAuto, 1, 0, 0}, TileUse::kToFit},
      {"several images", Image(Layout::kNchw, 4), {true, Policy::kAuto, 5, 4, 0}, TileUse::kToFit},
      {"more images than tiles",
       Image(Layout::kNchw, 257),
       {true, Policy::kAuto, 5, 4, 0},
       TileUse::kNone},
      {"the user forbids tiles", nchw, {false, Policy::kAuto, 5, 4, 0}, TileUse::kNone},
      {"the user forbids divisions", nchw, {true, Policy::kUndivided, 5, 4, 0}, TileUse::kNone},
      {"forbidden where it is large, too",
       large,
       {true, Policy::kUndivided, 5, kNoLimit, 0},
       TileUse::kNone},
      {"what would run fits", nchw, {true, Policy::kAuto, 4, 4, 0}, TileUse::kNone},
      {"no limit, and the cache holds the copies",
       nchw,
       {true, Policy::kAuto, 20 * kMiB, kNoLimit, 50 * kMiB},
       TileUse::kNone},
      {"no limit, and the cache is too small",
       nchw,
       {true, Policy::kAuto, 20 * kMiB, kNoLimit, 8 * kMiB},
       TileUse::kToGain},
      {"no limit, and an engine that copies nothing",
       nchw,
       {true, Policy::kAuto, 0, kNoLimit, 8 * kMiB},
       TileUse::kNone},
      {"no limit, and nothing to convert",
       nhwc,
       {true, Policy::kAuto, 20 * kMiB, kNoLimit, 8 * kMiB},
       TileUse::kNone},
      {"single images that the cache holds",
       Image(Layout::kNchw, 4),
       {true, Policy::kAuto, 80 * kMiB, kNoLimit, 17 * kMiB},
       TileUse::kNone},
      {"the cache is not known",
       nchw,
       {true, Policy::kAuto, 20 * kMiB, kNoLimit, 0},
       TileUse::kNone},
      {"policy powerOfTwo looks for no gain",
       nchw,
       {true, Policy::kPowerOfTwo, 20 * kMiB, kNoLimit, 8 * kMiB},
       TileUse::kNone},
      {"policy all looks everywhere",
       nhwc,
       {true, Policy::kAll, 0, kNoLimit, 50 * kMiB},
       TileUse::kToGain},
      {"2^31 elements", large, {true, Policy::kAuto, 0, kNoLimit, 0}, TileUse::kToGain},
      {"2^31 elements under policy powerOfTwo",
       large,
       {true, Policy::kPowerOfTwo, 0, kNoLimit, 0},
       TileUse::kToGain},
      {"2^31 elements that do not fit", large, {true, Policy::kAuto, 5, 4, 0}, TileUse::kToFit},
      {"2^31 elements within a limit", large, {true, Policy::kAuto, 4, 5, 0}, TileUse::kToGain},
      {"as many as engines count",
       nchw,
       {true, Policy::kAuto, 0, kNoLimit, 0, 32 * 65536},
       TileUse::kNone},
      {"one more", nchw, {true, Policy::kAuto, 0, kNoLimit, 0, 32 * 65536 - 1}, TileUse::kToGain},
  };
  for (const auto& [when, problem, conditions, use] : cases) {
    EXPECT_EQ(UseOfTiles(problem, conditions), use) << when;
  }
}

}  // namespace
}  // namespace ucudnn::planning
