#include "planner/striping/cut_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace ucudnn::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PaddedWindow Window(int64_t taps, int64_t stride, int64_t front, int64_t back,
                    int64_t dilation = 1) {
  return {{taps, dilation, stride, front}, back};
}

TEST(CutWindows, OwnCallsOfEachPartWhereTheyAreTheWhole) {
  const auto stem = CutWindowsOf('h', Window(7, 2, 3, 3), {112, 112});
  ASSERT_TRUE(stem.ok()) << stem.message();
  EXPECT_TRUE(stem->is_own_call);
  EXPECT_THAT(stem->outputs, ElementsAre(56, 56));
  EXPECT_THAT(stem->needed, ElementsAre(Interval{0, 114}, Interval{109, 224}));
}

TEST(CutWindows, TooLittlePaddingLeavesTheLastPartLess) {
  const auto alexnet = CutWindowsOf('h', Window(11, 4, 2, 2), {112, 112});
  ASSERT_TRUE(alexnet.ok()) << alexnet.message();
  EXPECT_FALSE(alexnet->is_own_call);
  EXPECT_THAT(alexnet->why, HasSubstr("h: windows of extent 11 and stride 4 go on across a cut"));
  EXPECT_THAT(alexnet->outputs, ElementsAre(28, 27));
}

TEST(CutWindows, PaddingAtOneEndIsThatOfTheImage) {
  const auto same = CutWindowsOf('w', Window(3, 2, 0, 1), {4, 4, 4});
  ASSERT_TRUE(same.ok()) << same.message();
  EXPECT_FALSE(same->is_own_call);
  EXPECT_THAT(same->why, HasSubstr("w: the image is padded by 0 rows before and 1 behind it"));
  EXPECT_THAT(same->outputs, ElementsAre(2, 2, 2));
  EXPECT_THAT(same->needed, ElementsAre(Interval{0, 5}, Interval{4, 9}, Interval{8, 12}));
}

TEST(CutWindows, RefusalsAreTheLibrarysWords) {
  EXPECT_EQ(CutWindowsOf('h', Window(3, 2, 1, 1), {7, 7}).message(),
            "h: part 0 of 2 has extent 7, which the stride 2 does not divide");
  EXPECT_EQ(CutWindowsOf('h', Window(11, 4, 0, 0), {114, 113}).message(),
            "h: part 0 of 2 has extent 114, which the stride 4 does not divide");
  EXPECT_EQ(CutWindowsOf('h', Window(1, 1, 0, 0), {1, 0}).message(), "h: part 1 of 2 has extent 0");
}

TEST(CutWindows, WhatNoSizeHelpsIsKnown) {
  EXPECT_TRUE(CanBeCut(Window(7, 2, 3, 3), 4, true));
  EXPECT_FALSE(CanBeCut(Window(11, 4, 2, 2), 4, true));
  EXPECT_TRUE(CanBeCut(Window(11, 4, 2, 2), 4, false));
  EXPECT_FALSE(CanBeCut(Window(4, 1, 3, 3), 2, false));
}

// Compares the rows that CutWindowsOf says a part needs with the rows that the part's windows read,
// found tap by tap.
TEST(CutWindows, AreThoseOfTheWhole) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  const auto draw = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  int answered = 0, own_calls = 0;
  for (int i = 0; i < 20000; ++i) {
    const PaddedWindow padded = Window(draw(1, 5), draw(1, 3), draw(0, 3), draw(0, 3), draw(1, 2));
    const SlidingWindow& window = padded.window;
    std::vector<int64_t> extents;
    for (int64_t part = draw(2, 4); part > 0; --part) extents.push_back(draw(1, 9));
    const auto cut = CutWindowsOf('h', padded, extents);
    if (!cut.ok()) continue;
    ++answered;
    const int64_t total = std::accumulate(extents.begin(), extents.end(), int64_t{0});
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    int64_t at = 0, begin = 0;
    bool is_own_call = window.pad == padded.back;
    for (size_t part = 0; part < extents.size(); ++part) {
      is_own_call =
          is_own_call && at * window.stride == begin &&
          FloorDivide(extents[part] + 2 * window.pad - window.Extent(), window.stride) + 1 ==
              cut->outputs[part];
      Interval needed = {begin, begin + extents[part]};
      ASSERT_GE(cut->outputs[part], 1);
      for (int64_t output = 0; output < cut->outputs[part]; ++output, ++at) {
        for (int64_t tap = 0; tap < window.taps; ++tap) {
          const int64_t row = at * window.stride - window.pad + tap * window.dilation;
          if (row < 0 || row >= total) continue;
          needed = {std::min(needed.begin, row), std::max(needed.end, row + 1)};
        }
      }
      // CutWindowsOf may return more rows, because it includes the rows between a window's taps.
      EXPECT_LE(cut->needed[part].begin, needed.begin);
      EXPECT_GE(cut->needed[part].end, needed.end);
      EXPECT_LE(needed.begin - cut->needed[part].begin, window.dilation + window.stride);
      begin += extents[part];
    }
    ASSERT_EQ(at, (total + window.pad + padded.back - window.Extent()) / window.stride + 1);
    EXPECT_EQ(cut->is_own_call, is_own_call);
    own_calls += cut->is_own_call ? 1 : 0;
  }
  EXPECT_GT(answered, 1000);
  EXPECT_GT(own_calls, 100);
}

}  // namespace
}  // namespace ucudnn::planner
