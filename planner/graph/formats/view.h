// The axes of a tensor of a file, expressed by the axes of a graph's node. A transposition changes
// only such a view and gets no node. The same is true of a reshape that splits no digit into
// unequal parts. Plain values and pure functions.
//
// An axis of the file is a sequence of digits, the outer digits first. The digit {h, 7, 2} has the
// values 0 to 6, and each step moves the position along the node's height by 2.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/graph/shapes.h"

namespace ucudnn::planner {

// Axes of a node, in the order of its numbers in memory. Only scores of an attention have the last
// three axes, which are positions of keys; the spatial axes of scores are positions of queries.
enum class ViewAxis { kBatch, kChannel, kDepth, kHeight, kWidth, kKeyDepth, kKeyHeight, kKeyWidth };
constexpr size_t kViewAxes = 8;
constexpr size_t kNodeAxes = 5;

struct Digit {
  ViewAxis axis = ViewAxis::kBatch;
  int64_t size = 1;
  int64_t stride = 1;

  bool operator==(const Digit&) const = default;
};

// Every digit has two or more values, except that a batch of 1 has a digit, too.
using Digits = std::vector<Digit>;
using View = std::vector<Digits>;  // by axis of the file

// The extents of a node's axes, in the order of ViewAxis; the first is the batch.
using NodeExtents = std::array<int64_t, kNodeAxes>;
NodeExtents ExtentsOf(const Shape& shape, int64_t batch);

// Returns the product of the digits' sizes; -1 if it exceeds 2^48, the most that any tensor has.
int64_t Extent(const Digits& digits);
std::vector<int64_t> Extents(const View& view);
Digits AllOf(const View& view);

// Returns the view with `images` as the size of every digit of the batch.
View WithImages(View view, int64_t images);

bool Holds(const Digits& digits, ViewAxis axis);
// Returns whether `digits` are exactly all positions of these axes, in the order of the node's
// memory.
bool AreWhole(const Digits& digits, const std::vector<ViewAxis>& axes, const NodeExtents& extents);
inline bool IsWhole(const Digits& digits, ViewAxis axis, const NodeExtents& extents) {
  return AreWhole(digits, {axis}, extents);
}

// Returns the view of a tensor of `rank` axes (1 to 5) that has the node's own axes: batch,
// channels, and the last spatial axes.
View PlainView(const NodeExtents& extents, size_t rank);

// Joins adjacent digits that together are one digit of an axis.
Digits Joined(const Digits& digits);

// Returns a view with the extents `extents` and the same digits in the same order; none if an
// extent would split a digit into unequal parts.
std::optional<View> Reshaped(const View& from, const std::vector<int64_t>& extents);

// Splits the digits of `a` and `b` so that they correspond one to one; none if that is impossible.
// REQUIRES: the extents of `a` and `b` are equal.
std::optional<std::pair<Digits, Digits>> Aligned(const Digits& a, const Digits& b);

// Returns whether the digits, in their order, pass through a node's numbers in the order of its
// memory.
bool RunsInOrder(const Digits& digits, const NodeExtents& extents);

// The result of Compacted(): the extents of a node that has only the digits `kept` of another node,
// and the view of the new node that takes the place of `kept`. The digits of each axis keep the
// order of their strides and have no gaps.
struct Remainder {
  NodeExtents extents = {1, 1, 1, 1, 1};
  View view;
};
Remainder Compacted(const View& kept);

// The result of SeparationOf(): how an operator that mixes exactly the positions of `mixed` may be
// divided. The members mean the same as in Opaque.
struct Separation {
  int64_t channel_parts = 1;
  bool rows = false;
  bool columns = false;
};
Separation SeparationOf(const Digits& mixed, const NodeExtents& extents);

std::string Describe(const View& view);  // "[n2][h7/2 w7/2][c32]", used by tests and messages

}  // namespace ucudnn::planner
