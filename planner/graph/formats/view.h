// How the axes of a tensor in a file hold the axes of a graph's node. Reshapes and transpositions
// only change these views, and are no nodes. Plain values and pure functions.
//
// An axis of the file is a sequence of digits, the outer digits first. The digit {h, 7, 2} runs
// from 0 to 6, and each step moves the position along the node's height by 2.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/graph/shapes.h"

namespace ucudnn::planner {

// Axes of a node, in the order of its numbers in memory. The last three are positions of the keys
// of an attention, whose scores hold them beside the positions of the queries.
enum class ViewAxis { kBatch, kChannel, kDepth, kHeight, kWidth, kKeyDepth, kKeyHeight, kKeyWidth };
constexpr size_t kViewAxes = 8;
constexpr size_t kNodeAxes = 5;

struct Digit {
  ViewAxis axis = ViewAxis::kBatch;
  int64_t size = 1;
  int64_t stride = 1;

  bool operator==(const Digit&) const = default;
};

// Digits of more than one value. Only the batch's digit stays even if it has one value.
using Digits = std::vector<Digit>;
using View = std::vector<Digits>;  // by axis of the file

// The extents of a node's axes; `batch` in front.
using NodeExtents = std::array<int64_t, kNodeAxes>;
NodeExtents ExtentsOf(const Shape& shape, int64_t batch);

// Returns -1 if the extent is more than any tensor has, which is 2^48.
int64_t Extent(const Digits& digits);
std::vector<int64_t> Extents(const View& view);
Digits AllOf(const View& view);

// Returns the view with `images` as the size of each digit of the batch.
View WithImages(View view, int64_t images);

bool Holds(const Digits& digits, ViewAxis axis);
// Returns whether `digits` are exactly all positions of these axes, in the order of the graph.
bool AreWhole(const Digits& digits, const std::vector<ViewAxis>& axes, const NodeExtents& extents);
inline bool IsWhole(const Digits& digits, ViewAxis axis, const NodeExtents& extents) {
  return AreWhole(digits, {axis}, extents);
}

// Returns the view of a node whose file has the axes batch, channels and those of images; `rank` is
// 1 to 5.
View PlainView(const NodeExtents& extents, size_t rank);

// Joins adjacent digits of one axis.
Digits Joined(const Digits& digits);

// Returns the view with other extents; none if an extent would need a part of a digit that does not
// divide. The digits of `from` in order are the digits of the result in order.
std::optional<View> Reshaped(const View& from, const std::vector<int64_t>& extents);

// Splits the digits of `a` and `b` at common places, so that they correspond one to one; none if
// that is impossible. REQUIRES: their extents are equal.
std::optional<std::pair<Digits, Digits>> Aligned(const Digits& a, const Digits& b);

// Returns whether the digits in order run through the numbers of a node one after the other.
bool RunsInOrder(const Digits& digits, const NodeExtents& extents);

// The node that remains if only the digits `kept` of another node remain, and their new digits in
// place of `kept`: the digits of each axis, in the order of their strides, without gaps.
struct Remainder {
  NodeExtents extents = {1, 1, 1, 1, 1};
  View view;
};
Remainder Compacted(const View& kept);

// How far an operator that mixes all positions of `mixed`, and no others, can be divided. Opaque
// has these fields.
struct Separation {
  int64_t channel_parts = 1;
  bool rows = false;
  bool columns = false;
};
Separation SeparationOf(const Digits& mixed, const NodeExtents& extents);

std::string Describe(const View& view);  // "[n2][h7/2 w7/2][c32]", for tests and messages

}  // namespace ucudnn::planner
