// Tests views (view.h) as index maps: finds the place in the node for each element of a small
// tensor.
#include "planner/graph/formats/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace ucudnn::planner {
namespace {

using Place = std::array<int64_t, kNodeAxes>;

// Returns the places in the node of all elements of an axis, or of a tensor in row-major order.
std::vector<Place> PlacesOf(const Digits& digits) {
  std::vector<Place> places(1);
  for (const Digit& digit : digits) {
    std::vector<Place> next;
    for (const Place& place : places) {
      for (int64_t value = 0; value < digit.size; ++value) {
        next.push_back(place);
        next.back()[static_cast<size_t>(digit.axis)] += value * digit.stride;
      }
    }
    places = std::move(next);
  }
  return places;
}

// Returns all ways to write `product` as a product of `count` factors.
std::vector<std::vector<int64_t>> Factors(int64_t product, int count) {
  if (count == 1) return {{product}};
  std::vector<std::vector<int64_t>> all;
  for (int64_t first = 1; first <= product; ++first) {
    if (product % first != 0) continue;
    for (std::vector<int64_t> rest : Factors(product / first, count - 1)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

// Returns whether the digits can be cut, between two digits or within one, into outer digits and
// inner digits with `inner` positions.
bool Cuts(const Digits& digits, int64_t inner) {
  int64_t below = 1;
  for (size_t at = digits.size(); at-- > 0; below *= digits[at].size) {
    const int64_t above = below * digits[at].size;
    if (inner % below == 0 && above % inner == 0) return true;
  }
  return inner == 1;
}

// Returns a view for every order of the axes of a node.
std::vector<View> Orders(const NodeExtents& extents) {
  std::vector<View> views;
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    View view;
    for (const size_t axis : order) view.push_back(PlainView(extents, 4)[axis]);
    views.push_back(view);
  } while (std::next_permutation(order.begin(), order.end()));
  return views;
}

constexpr NodeExtents kNode = {2, 6, 1, 4, 3};

TEST(View, AReshapeKeepsTheOrderAndFailsOnlyWhereADigitDoesNotDivide) {
  int made = 0;
  for (const View& from : Orders(kNode)) {
    for (int rank = 1; rank <= 4; ++rank) {
      for (const std::vector<int64_t>& extents : Factors(2 * 6 * 4 * 3, rank)) {
        const auto view = Reshaped(from, extents);
        bool divides = true;
        int64_t inner = 1;
        for (size_t at = extents.size(); at-- > 0; inner *= extents[at]) {
          divides = divides && Cuts(AllOf(from), inner);
        }
        ASSERT_EQ(view.has_value(), divides) << Describe(from);
        if (!view) continue;
        ++made;
        EXPECT_EQ(Extents(*view), extents);
        EXPECT_EQ(PlacesOf(AllOf(*view)), PlacesOf(AllOf(from))) << Describe(*view);
      }
    }
  }
  EXPECT_GT(made, 1000);
}

TEST(View, ReshapesThatHaveOtherNumbersOfElementsFail) {
  const View plain = PlainView(kNode, 4);
  for (const std::vector<int64_t>& extents : std::vector<std::vector<int64_t>>{
           {}, {143}, {288}, {2, 72, 0}, {-1, 144}, {2, 6, 4}, {2, 6, 4, 3, 2}}) {
    EXPECT_FALSE(Reshaped(plain, extents));
  }
}

TEST(View, AlignedDigitsCorrespondOneToOne) {
  int made = 0;
  for (const std::vector<int64_t>& left : Factors(24, 3)) {
    for (const std::vector<int64_t>& right : Factors(24, 3)) {
      Digits a;
      Digits b;
      int64_t inner_a = 1;
      int64_t inner_b = 1;
      for (size_t at = 3; at-- > 0;) {
        if (left[at] > 1) a.insert(a.begin(), {ViewAxis::kHeight, left[at], inner_a});
        if (right[at] > 1) b.insert(b.begin(), {ViewAxis::kWidth, right[at], inner_b});
        inner_a *= left[at];
        inner_b *= right[at];
      }
      const auto aligned = Aligned(a, b);
      int64_t inner = 1;
      bool divides = true;
      for (size_t at = b.size(); at-- > 0; inner *= b[at].size) divides = divides && Cuts(a, inner);
      ASSERT_EQ(aligned.has_value(), divides) << Describe({a, b});
      if (!aligned) continue;
      ++made;
      ASSERT_EQ(aligned->first.size(), aligned->second.size());
      for (size_t at = 0; at < aligned->first.size(); ++at) {
        EXPECT_EQ(aligned->first[at].size, aligned->second[at].size);
      }
      EXPECT_EQ(PlacesOf(aligned->first), PlacesOf(a));
      EXPECT_EQ(PlacesOf(aligned->second), PlacesOf(b));
    }
  }
  EXPECT_GT(made, 300);
}

// Compacts views of every subset of the digits of c = 3 * 2 * 2 and h = 2 * 2, in every order.
TEST(View, WhatIsLeftOfANodeKeepsItsOrderAlongEachAxis) {
  const Digits digits = {{ViewAxis::kChannel, 3, 4},
                         {ViewAxis::kChannel, 2, 2},
                         {ViewAxis::kChannel, 2, 1},
                         {ViewAxis::kHeight, 2, 2},
                         {ViewAxis::kHeight, 2, 1}};
  for (int subset = 0; subset < 32; ++subset) {
    std::vector<size_t> order;
    for (size_t at = 0; at < digits.size(); ++at) {
      if ((subset >> at & 1) != 0) order.push_back(at);
    }
    do {
      View kept;
      for (const size_t at : order) kept.push_back({digits[at]});
      const Remainder remainder = Compacted(kept);
      const std::vector<Place> before = PlacesOf(AllOf(kept));
      const std::vector<Place> after = PlacesOf(AllOf(remainder.view));
      ASSERT_EQ(before.size(), after.size());
      EXPECT_EQ(std::set<Place>(after.begin(), after.end()).size(), after.size());
      std::map<std::pair<size_t, int64_t>, std::set<int64_t>> moved;  // coordinates, by axis
      for (size_t at = 0; at < after.size(); ++at) {
        for (size_t axis = 0; axis < kNodeAxes; ++axis) {
          EXPECT_LT(after[at][axis], remainder.extents[axis]);
          moved[{axis, before[at][axis]}].insert(after[at][axis]);
        }
      }
      int64_t last = -1;
      size_t last_axis = kNodeAxes;
      for (const auto& [from, to] : moved) {  // by axis, and along each axis by old coordinate
        EXPECT_EQ(to.size(), 1u);
        if (from.first == last_axis) {
          EXPECT_EQ(*to.begin(), last + 1);
        }
        last_axis = from.first;
        last = *to.begin();
      }
      EXPECT_EQ(std::accumulate(remainder.extents.begin(), remainder.extents.end(), int64_t{1},
                                std::multiplies<>()),
                static_cast<int64_t>(after.size()));
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// Two positions meet if they differ only in digits of `mixed`. Positions of different parts must
// not meet. Compares SeparationOf with a search for the largest number of parts of the channels,
// and with a check of parts of one row or one column.
TEST(View, SeparateChannelsRowsAndColumnsAreThoseThatNeverMeet) {
  const NodeExtents extents = {2, 12, 1, 4, 2};
  Digits candidates;
  for (const int64_t size : {2, 3, 4, 6, 12}) {
    for (int64_t stride = 1; stride * size <= 12; ++stride) {
      if (12 % (size * stride) == 0) candidates.push_back({ViewAxis::kChannel, size, stride});
    }
  }
  candidates.push_back({ViewAxis::kHeight, 2, 2});
  candidates.push_back({ViewAxis::kHeight, 4, 1});
  candidates.push_back({ViewAxis::kWidth, 2, 1});
  for (const Digit& one : candidates) {
    for (const Digit& other : candidates) {
      const Digits mixed = {one, other};
      const bool are_apart = one.axis != other.axis || other.stride % (one.stride * one.size) == 0;
      if (!are_apart) continue;
      // The groups of positions that meet, by the least position of each group.
      std::map<Place, std::set<Place>> met;
      for (const Place& place : PlacesOf(AllOf(PlainView(extents, 4)))) {
        Place least = place;
        for (const Digit& digit : mixed) {
          int64_t& at = least[static_cast<size_t>(digit.axis)];
          at -= at / digit.stride % digit.size * digit.stride;
        }
        met[least].insert(place);
      }
      const auto is_closed = [&](size_t axis, int64_t parts) {
        const int64_t length = extents[axis] / parts;
        return std::all_of(met.begin(), met.end(), [&](const auto& group) {
          return std::all_of(group.second.begin(), group.second.end(), [&](const Place& place) {
            return place[axis] / length == group.second.begin()->at(axis) / length;
          });
        });
      };
      const Separation separation = SeparationOf(mixed, extents);
      int64_t most = 0;
      for (int64_t parts = 1; parts <= 12; ++parts) {
        if (12 % parts == 0 && is_closed(1, parts)) most = parts;
      }
      EXPECT_EQ(separation.channel_parts, most) << Describe({mixed});
      EXPECT_EQ(separation.rows, is_closed(3, 4)) << Describe({mixed});
      EXPECT_EQ(separation.columns, is_closed(4, 2)) << Describe({mixed});
    }
  }
}

TEST(View, ExtentsBeyondAnyTensorAreNone) {
  const Digit large = {ViewAxis::kHeight, int64_t{1} << 31, 1};
  EXPECT_EQ(Extent({large}), int64_t{1} << 31);
  EXPECT_EQ(Extent({large, large}), -1);
  EXPECT_GT(Compacted({{large}, {large}, {large}}).extents[3], int64_t{1} << 31);
}

}  // namespace
}  // namespace ucudnn::planner
