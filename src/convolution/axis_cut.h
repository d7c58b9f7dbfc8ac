// One spatial axis of a convolution cut into parts that ranks own, and whether a program that knows
// nothing of the cut computes windows of the whole convolution. Plain values and pure functions;
// thread-compatible. Elements are positions of x and dx, windows are positions of y and dy: tap j
// of window o reads element o stride - pad + j dilation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "convolution/partition.h"

namespace ucudnn {

// The elements and windows that each part owns of the whole axis, in order, from 0 and without
// gaps. There is one part if the axis is not cut.
struct AxisCut {
  SlidingWindow window;
  std::vector<Interval> elements;
  std::vector<Interval> windows;

  int Parts() const { return static_cast<int>(elements.size()); }
};

// Cuts `axis` (d, h or w, for messages) into parts of `extents` elements, if each part's own
// convolution, with the same window and pad, computes windows of the whole one, all together every
// window exactly once. That holds if and only if every part has a window and, if there is more than
// one part, window extent - stride <= 2 pad <= window extent - 1, and the stride divides the extent
// of every part but the last. Otherwise the error says which part or value prevents it: "h: part 0
// of 3 has extent 7, which the stride 2 does not divide". The result depends on the arguments
// alone, so it is the same on all ranks. REQUIRES: taps, dilation and stride > 0, pad >= 0.
Result<AxisCut> CutAxis(char axis, const SlidingWindow& window, std::span<const int64_t> extents);

}  // namespace ucudnn
