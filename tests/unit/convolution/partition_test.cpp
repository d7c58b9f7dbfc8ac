// Tests the formulas for windows and parts against loops over single elements.
#include "convolution/partition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace ucudnn {
namespace {

using Positions = std::set<int64_t>;

Positions In(const Interval& interval) {
  Positions positions;
  for (int64_t at = interval.begin; at < interval.end; ++at) positions.insert(at);
  return positions;
}

// Returns the interval from the first to the last of `positions`.
Interval Hull(const Positions& positions) {
  return positions.empty() ? Interval{} : Interval{*positions.begin(), *positions.rbegin() + 1};
}

// Returns the elements of the image between the first and the last tap of window `output`.
Positions Under(const SlidingWindow& window, int64_t output, int64_t image) {
  Positions positions;
  const int64_t first = output * window.stride - window.pad;
  const int64_t last = first + (window.taps - 1) * window.dilation;
  for (int64_t at = 0; at < image; ++at) {
    if (first <= at && at <= last) positions.insert(at);
  }
  return positions;
}

template <typename Visit>
void ForEachWindow(const Visit& visit) {
  for (int64_t taps = 1; taps <= 4; ++taps) {
    for (int64_t dilation = 1; dilation <= 3; ++dilation) {
      for (int64_t stride = 1; stride <= 4; ++stride) {
        for (int64_t pad = 0; pad <= 6; ++pad) visit(SlidingWindow{taps, dilation, stride, pad});
      }
    }
  }
}

std::string Text(const SlidingWindow& window) {
  return std::to_string(window.taps) + " taps, dilation " + std::to_string(window.dilation) +
         ", stride " + std::to_string(window.stride) + ", pad " + std::to_string(window.pad);
}

TEST(Division, RoundsDownAndUpOnBothSidesOfZero) {
  for (int64_t dividend = -13; dividend <= 13; ++dividend) {
    for (int64_t divisor = 1; divisor <= 5; ++divisor) {
      const double quotient = static_cast<double>(dividend) / static_cast<double>(divisor);
      EXPECT_EQ(static_cast<double>(FloorDivide(dividend, divisor)), std::floor(quotient));
      EXPECT_EQ(static_cast<double>(CeilDivide(dividend, divisor)), std::ceil(quotient));
    }
  }
}

TEST(Intervals, MeetInTheElementsOfBoth) {
  for (int64_t a = -2; a <= 3; ++a) {
    for (int64_t b = -2; b <= 3; ++b) {
      for (const Interval& other : {Interval{-1, 2}, Interval{0, 0}, Interval{2, -1}}) {
        const Interval one = {a, b};
        Positions both;
        const Positions others = In(other);
        for (const int64_t at : In(one)) {
          if (others.count(at) > 0) both.insert(at);
        }
        EXPECT_EQ(Intersection(one, other), Hull(both));
        EXPECT_EQ(Overlap(one, other), static_cast<int64_t>(both.size()));
        EXPECT_EQ(one.Length(), static_cast<int64_t>(In(one).size()));
      }
    }
  }
}

TEST(Parts, FollowOneAnotherTheLargerOnesFirst) {
  for (int64_t extent = 0; extent <= 9; ++extent) {
    for (int parts = 1; parts <= 12; ++parts) {
      int64_t end = 0;
      for (int index = 0; index < parts; ++index) {
        const Interval part = Part(extent, parts, index);
        EXPECT_EQ(part.begin, end);
        end = part.end;
        EXPECT_LE(Part(extent, parts, 0).Length() - part.Length(), 1);
        EXPECT_LE(part.Length(), Part(extent, parts, std::max(0, index - 1)).Length());
      }
      EXPECT_EQ(end, extent);
    }
  }
}

TEST(Parts, OfANegativeExtentAreEmpty) {
  EXPECT_EQ(Part(-7, 3, 0), (Interval{0, 0}));
  EXPECT_EQ(Part(-7, 3, 2), (Interval{0, 0}));
}

TEST(Boxes, HaveNoElementsWhereOneIntervalIsEmpty) {
  const Box box = {{{0, 2}, {1, 4}, {0, 1}, {2, 7}, {5, 6}}};
  EXPECT_EQ(Elements(box), 2 * 3 * 1 * 5 * 1);
  Box flat = box;
  flat[kAxisH] = {4, 3};
  flat[kAxisW] = {4, 3};
  EXPECT_EQ(Elements(flat), 0);
  EXPECT_EQ(Elements(Intersection(box, flat)), 0);
  Box beside = box;
  beside[kAxisC] = {3, 9};
  EXPECT_EQ(Elements(Intersection(box, beside)), 2 * 1 * 1 * 5 * 1);
}

TEST(Windows, UnderThemLiesTheHullOfWhatEachCovers) {
  ForEachWindow([](const SlidingWindow& window) {
    for (int64_t image = 0; image <= 7; ++image) {
      for (int64_t begin = 0; begin <= 5; ++begin) {
        Positions under;
        for (int64_t end = begin; end <= 9; ++end) {
          EXPECT_EQ(UnderWindows(window, {begin, end}, image), Hull(under))
              << Text(window) << ", windows " << begin << " to " << end << ", image " << image;
          under.merge(Under(window, end, image));
        }
      }
    }
  });
}

TEST(Windows, OverElementsAreThoseThatCoverOne) {
  ForEachWindow([](const SlidingWindow& window) {
    const int64_t image = 6;
    for (int64_t windows = 0; windows <= 6; ++windows) {
      for (int64_t begin = 0; begin <= image; ++begin) {
        for (int64_t end = begin; end <= image; ++end) {
          Positions over;
          for (int64_t output = 0; output < windows; ++output) {
            for (const int64_t at : Under(window, output, image)) {
              if (begin <= at && at < end) over.insert(output);
            }
          }
          const Interval found = WindowsOver(window, {begin, end}, windows);
          EXPECT_EQ(found, Hull(over))
              << Text(window) << ", elements " << begin << " to " << end << ", of " << windows;
          EXPECT_EQ(In(found), over);  // `over` has no gaps
        }
      }
    }
  });
}

TEST(Windows, OfNoImageAndOfNegativeExtentsReadNothing) {
  const SlidingWindow window = {3, 1, 1, 1};
  EXPECT_EQ(UnderWindows(window, {0, 4}, -5), (Interval{0, 0}));
  EXPECT_EQ(UnderWindows(window, {3, 2}, 9), (Interval{0, 0}));
  EXPECT_EQ(WindowsOver(window, {0, 4}, -5), (Interval{0, 0}));
  EXPECT_EQ(WindowsOver(window, {3, 3}, 9), (Interval{0, 0}));
}

TEST(Groups, AreReadWhole) {
  // There are two groups, each with three filters and two channels.
  EXPECT_EQ(ChannelsOfGroups({0, 3}, 3, 2), (Interval{0, 2}));
  EXPECT_EQ(ChannelsOfGroups({2, 4}, 3, 2), (Interval{0, 4}));
  EXPECT_EQ(ChannelsOfGroups({5, 6}, 3, 2), (Interval{2, 4}));
  EXPECT_EQ(ChannelsOfGroups({4, 4}, 3, 2), (Interval{0, 0}));
}

}  // namespace
}  // namespace ucudnn
