// The geometry of divided convolutions: half-open intervals, boxes of tensors, and what sliding
// windows read. Positions and lengths are in elements of one axis. Element o of an output axis
// reads the input elements o * stride - pad + j * dilation, 0 <= j < taps, as far as they exist.
// Plain values and pure functions that allocate nothing; thread-compatible.
#pragma once

#include <array>
#include <cstdint>

#include "convolution/problem.h"

namespace ucudnn {

// Divide and round down or up, also for negative dividends. REQUIRES: divisor > 0.
int64_t FloorDivide(int64_t dividend, int64_t divisor);
int64_t CeilDivide(int64_t dividend, int64_t divisor);

// The elements from `begin` to `end` - 1; none if end <= begin. Among the functions below, only
// Part may return an empty interval other than [0, 0).
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const Interval&) const = default;
  int64_t Length() const { return end > begin ? end - begin : 0; }
};

// Returns the elements that are in both intervals; [0, 0) if there are none.
Interval Intersection(const Interval& a, const Interval& b);
// Returns the number of elements that are in both intervals.
int64_t Overlap(const Interval& a, const Interval& b);

// Divides `extent` elements into `parts` parts, and returns part `index`. If lengths differ, the
// first parts are longer by one element. If there are more parts than elements, the last parts are
// empty. A negative extent counts as 0. REQUIRES: 0 <= index < parts.
Interval Part(int64_t extent, int parts, int index);

constexpr int kTensorAxes = 5;
enum TensorAxis : size_t { kAxisN, kAxisC, kAxisD, kAxisH, kAxisW };
using TensorExtents = std::array<int64_t, kTensorAxes>;  // axis order n, c, d, h, w
// Intervals in axis order n, c, d, h, w; the box is the product of its intervals.
using Box = std::array<Interval, kTensorAxes>;

int64_t Elements(const Box& box);  // 0 if any interval is empty
Box Intersection(const Box& a, const Box& b);

// A window along one axis. Window `o` begins at element o * stride - pad of the image. From there
// it touches every `dilation`-th element, `taps` elements in all. REQUIRES: taps, dilation and
// stride > 0.
struct SlidingWindow {
  int64_t taps = 1;
  int64_t dilation = 1;
  int64_t stride = 1;
  int64_t pad = 0;

  int64_t Extent() const { return (taps - 1) * dilation + 1; }  // from its first to its last tap
};

// Returns the window of a convolution along axis 0 (d), 1 (h) or 2 (w).
SlidingWindow WindowOf(const ConvolutionProblem& problem, size_t spatial_axis);

// The image has `image` elements. Returns the smallest interval that contains all elements of the
// image under the windows `outputs`. A window covers all elements from its first to its last tap.
// Empty if `outputs` is empty or all of its windows lie in the padding. REQUIRES: outputs.begin >=
// 0.
Interval UnderWindows(const SlidingWindow& window, const Interval& outputs, int64_t image);

// Returns the windows, among 0 to `windows` - 1, that lie over at least one element of `elements`.
// A window covers all elements from its first to its last tap. Backward data and transposed
// convolutions read these windows to compute `elements`. Empty if `elements` is empty or lies
// between two windows (stride > Extent()).
Interval WindowsOver(const SlidingWindow& window, const Interval& elements, int64_t windows);

// `channels` are input or output channels of a grouped convolution, with `per_group` channels in
// each group. Returns the channels of the other tensor in the same groups; it has
// `others_per_group` in each group. REQUIRES: per_group and others_per_group > 0.
Interval ChannelsOfGroups(const Interval& channels, int64_t per_group, int64_t others_per_group);

}  // namespace ucudnn
