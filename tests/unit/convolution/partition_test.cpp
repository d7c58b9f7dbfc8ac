// What the closed formulas say of windows and parts, against elements looked at one by one.
#include "convolution/partition.h"
#include "tests/support/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace ucudnn {
namespace {

using Positions = std::set<int64_t>;

Positions In(const Interval& interval) {
  Positions positions;
  for (int64_t at = interval.begin; at < interval.end; ++at) positions.insert(at);
  return positions;
}

// From the first to the last of `positions`.
Interval Hull(const Positions& positions) {
  return positions.empty() ? Interval{} : Interval{*positions.begin(), *positions.rbegin() + 1};
}

// Elements of the image between the first and the last tap of window `output`.
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
          EXPECT_EQ(In(found), over);  // without gaps
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
  // Two groups of three filters on two channels each.
  EXPECT_EQ(ChannelsOfGroups({0, 3}, 3, 2), (Interval{0, 2}));
  EXPECT_EQ(ChannelsOfGroups({2, 4}, 3, 2), (Interval{0, 4}));
  EXPECT_EQ(ChannelsOfGroups({5, 6}, 3, 2), (Interval{2, 4}));
  EXPECT_EQ(ChannelsOfGroups({4, 4}, 3, 2), (Interval{0, 0}));
}

// An element of a tensor: n, c, d, h, w.
using Index = std::array<int64_t, kTensorAxes>;

bool Holds(const Box& box, const Index& at) {
  for (size_t axis = 0; axis < kTensorAxes; ++axis) {
    if (at[axis] < box[axis].begin || at[axis] >= box[axis].end) return false;
  }
  return true;
}

template <typename Visit>
void ForEachElement(const Box& box, const Visit& visit) {
  Index at;
  for (at[0] = box[0].begin; at[0] < box[0].end; ++at[0])
    for (at[1] = box[1].begin; at[1] < box[1].end; ++at[1])
      for (at[2] = box[2].begin; at[2] < box[2].end; ++at[2])
        for (at[3] = box[3].begin; at[3] < box[3].end; ++at[3])
          for (at[4] = box[4].begin; at[4] < box[4].end; ++at[4]) visit(at);
}

Box Whole(int64_t n, int64_t channels, const Spatial& extents) {
  return {{{0, n}, {0, channels}, {0, extents[0]}, {0, extents[1]}, {0, extents[2]}}};
}

// Whether window `y` of y lies over element `x` of the image, from its first to its last tap, and
// both belong to the same image and group.
bool Meets(const ConvolutionProblem& problem, const Index& x, const Index& y) {
  if (x[0] != y[0]) return false;
  if (x[1] / (problem.c / problem.groups) != y[1] / (problem.k / problem.groups)) return false;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t first = y[2 + axis] * problem.stride[axis] - problem.pad[axis];
    const int64_t last = first + (problem.w[axis] - 1) * problem.dilation[axis];
    if (x[2 + axis] < first || x[2 + axis] > last) return false;
  }
  return true;
}

// The smallest box with every element of `read` that a part reads to compute `computed`.
Box ReadOneByOne(const ConvolutionProblem& problem, const Box& computed, const Box& read) {
  Box hull;
  hull.fill({1 << 20, 0});
  ForEachElement(computed, [&](const Index& output) {
    ForEachElement(read, [&](const Index& input) {
      const bool backward = problem.operation == Operation::kBackwardData;
      if (!(backward ? Meets(problem, output, input) : Meets(problem, input, output))) return;
      for (size_t axis = 0; axis < kTensorAxes; ++axis) {
        hull[axis].begin = std::min(hull[axis].begin, input[axis]);
        hull[axis].end = std::max(hull[axis].end, input[axis] + 1);
      }
    });
  });
  return hull;
}

struct DividedConvolution {
  ConvolutionProblem problem;
  Partition partition;
  Box output;  // of the tensor that is computed, or summed over, part by part
  Box input;   // of the tensor that is read through windows
};

constexpr unsigned kSeed = 20240;

class RandomDivisions {
 public:
  explicit RandomDivisions(unsigned seed) : random_(seed) {}

  DividedConvolution Next(Operation operation) {
    DividedConvolution divided;
    ConvolutionProblem& problem = divided.problem;
    problem.operation = operation;
    problem.n = Draw(1, 2);
    problem.groups = Draw(1, 2);
    problem.c = problem.groups * Draw(1, 2);
    problem.k = problem.groups * Draw(1, 3);
    problem.spatial_rank = Draw(0, 3) == 0 ? 3 : 2;
    for (size_t axis = problem.spatial_rank == 3 ? 0 : 1; axis < kMaxSpatial; ++axis) {
      problem.w[axis] = Draw(1, 3);
      problem.dilation[axis] = Draw(1, 2);
      problem.stride[axis] = Draw(1, 3);
      problem.pad[axis] = Draw(0, 3);
      problem.x[axis] = Draw(1, 5);
      const int effective = (problem.w[axis] - 1) * problem.dilation[axis] + 1;
      problem.x[axis] = std::max(problem.x[axis], effective - 2 * problem.pad[axis]);
    }
    divided.partition.degrees = {Draw(1, 2), Draw(1, 3), Draw(1, 2), Draw(1, 4), Draw(1, 2)};
    const Box x = Whole(problem.n, problem.c, problem.x);
    const Box y = Whole(problem.n, problem.k, OutputExtents(problem));
    const bool backward = operation == Operation::kBackwardData;
    divided.output = backward ? x : y;
    divided.input = backward ? y : x;
    return divided;
  }

 private:
  int Draw(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  std::mt19937 random_;
};

// Calls check(divided, part) for every part of many small convolutions of every operation.
template <typename Check>
void ForEachPart(const Check& check) {
  RandomDivisions divisions(kSeed);
  for (int round = 0; round < 200; ++round) {
    for (const Operation operation :
         {Operation::kForward, Operation::kBackwardData, Operation::kBackwardFilter}) {
      const DividedConvolution divided = divisions.Next(operation);
      SCOPED_TRACE(Describe(divided.problem) + ", seed " + std::to_string(kSeed) + ", round " +
                   std::to_string(round));
      for (int part = 0; part < divided.partition.Parts(); ++part) check(divided, part);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(Partition, NumbersItsPartsTheLastAxisFastest) {
  Partition partition;
  EXPECT_EQ(partition.Parts(), 1);
  partition.degrees = {2, 1, 1, 3, 2};
  EXPECT_EQ(partition.Parts(), 12);
  const TensorExtents extents = {4, 8, 1, 7, 2};
  EXPECT_EQ(partition.Of(extents, 0), (Box{{{0, 2}, {0, 8}, {0, 1}, {0, 3}, {0, 1}}}));
  EXPECT_EQ(partition.Of(extents, 1), (Box{{{0, 2}, {0, 8}, {0, 1}, {0, 3}, {1, 2}}}));
  EXPECT_EQ(partition.Of(extents, 9), (Box{{{2, 4}, {0, 8}, {0, 1}, {3, 5}, {1, 2}}}));
}

TEST(Partition, BoxesAreDisjointAndCoverEachTensor) {
  RandomDivisions divisions(kSeed);
  for (int round = 0; round < 200; ++round) {
    const DividedConvolution divided = divisions.Next(static_cast<Operation>(round % 3));
    SCOPED_TRACE(Describe(divided.problem) + ", seed " + std::to_string(kSeed));
    const auto owners = [&](const Index& at, auto box_of) {
      int count = 0;
      for (int part = 0; part < divided.partition.Parts(); ++part) {
        count += Holds(box_of(part), at) ? 1 : 0;
      }
      return count;
    };
    ForEachElement(divided.output, [&](const Index& at) {
      ASSERT_EQ(
          owners(at, [&](int part) { return divided.partition.Computed(divided.problem, part); }),
          1);
    });
    ForEachElement(divided.input, [&](const Index& at) {
      ASSERT_EQ(
          owners(at, [&](int part) { return divided.partition.Owned(divided.problem, part); }), 1);
    });
  }
}

TEST(Partition, NeededIsTheHullOfWhatEachElementReads) {
  ForEachPart([](const DividedConvolution& divided, int part) {
    const auto& [problem, partition, output, input] = divided;
    const Box needed = partition.Needed(problem, part);
    const Box read = ReadOneByOne(problem, partition.Computed(problem, part), input);
    if (Elements(read) == 0) {
      EXPECT_EQ(Elements(needed), 0) << "part " << part;
    } else {
      EXPECT_EQ(needed, read) << "part " << part;
    }
  });
}

TEST(Partition, WhatIsNeededIsOwnedOrReceivedOnce) {
  ForEachPart([](const DividedConvolution& divided, int part) {
    const auto& [problem, partition, output, input] = divided;
    const Box needed = partition.Needed(problem, part);
    const Box owned = partition.Owned(problem, part);
    EXPECT_EQ(Elements(partition.Received(problem, part, part)), 0);
    std::vector<Box> received;
    for (int peer = 0; peer < partition.Parts(); ++peer) {
      received.push_back(partition.Received(problem, part, peer));
      EXPECT_EQ(received.back(), partition.Sent(problem, peer, part));
    }
    ForEachElement(input, [&](const Index& at) {
      const auto times = std::count_if(received.begin(), received.end(),
                                       [&](const Box& box) { return Holds(box, at); });
      EXPECT_EQ(times, Holds(needed, at) && !Holds(owned, at) ? 1 : 0) << "part " << part;
    });
  });
}

ConvolutionProblem Rows(int rows, int taps, int stride, int pad) {
  return test::ProblemWith(
      {.x = {1, rows, 1}, .w = {1, taps, 1}, .pad = {0, pad, 0}, .stride = {1, stride, 1}});
}

Interval ReceivedRows(const ConvolutionProblem& problem, int parts, int part, int peer) {
  Partition partition;
  partition.degrees[kAxisH] = parts;
  return partition.Received(problem, part, peer)[kAxisH];
}

TEST(Partition, AStemsHalosAreThoseOfItsStrideAndPad) {
  // ResNet's 7x7 stride 2 pad 3 on 224 rows: 3 rows from above, 2 from below.
  const ConvolutionProblem stem = Rows(224, 7, 2, 3);
  EXPECT_EQ(ReceivedRows(stem, 4, 1, 0), (Interval{53, 56}));
  EXPECT_EQ(ReceivedRows(stem, 4, 1, 2), (Interval{112, 114}));
  EXPECT_EQ(ReceivedRows(stem, 4, 1, 3), (Interval{0, 0}));
  // Its gradient reads one row of dy from above and two from below.
  ConvolutionProblem gradient = stem;
  gradient.operation = Operation::kBackwardData;
  EXPECT_EQ(ReceivedRows(gradient, 4, 1, 0), (Interval{27, 28}));
  EXPECT_EQ(ReceivedRows(gradient, 4, 1, 2), (Interval{56, 58}));
}

TEST(Partition, AHaloWiderThanAPartComesFromSeveralPeers) {
  // Eleven taps on stripes of two rows.
  const ConvolutionProblem wide = Rows(8, 11, 1, 5);
  EXPECT_EQ(ReceivedRows(wide, 4, 0, 1), (Interval{2, 4}));
  EXPECT_EQ(ReceivedRows(wide, 4, 0, 2), (Interval{4, 6}));
  EXPECT_EQ(ReceivedRows(wide, 4, 0, 3), (Interval{6, 7}));
}

TEST(Partition, APartWithoutOutputNeedsNothing) {
  // Stripes of 2 and 1 rows, one window of two rows.
  const ConvolutionProblem problem = Rows(3, 2, 2, 0);
  Partition partition;
  partition.degrees[kAxisH] = 2;
  EXPECT_EQ(Elements(partition.Computed(problem, 1)), 0);
  EXPECT_EQ(Elements(partition.Needed(problem, 1)), 0);
  EXPECT_EQ(Elements(partition.Received(problem, 1, 0)), 0);
}

}  // namespace
}  // namespace ucudnn
