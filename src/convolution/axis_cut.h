// One spatial axis of a convolution, cut into parts that ranks own. Elements are positions of x and
// dx, windows are positions of y and dy: tap j of window o reads element o * stride - pad + j *
// dilation. Plain values and pure functions; thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "convolution/partition.h"

namespace ucudnn {

// The elements and windows that each part owns, counted along the whole axis: the intervals follow
// each other from 0 without gaps. An axis that is not cut has one part.
struct AxisCut {
  SlidingWindow window;
  std::vector<Interval> elements;
  std::vector<Interval> windows;

  int Parts() const { return static_cast<int>(elements.size()); }
};

// Cuts `axis` (the letter d, h or w, for messages) into parts of `extents` elements. Each part's
// own convolution, with the same window and pad, must compute windows of the whole convolution, and
// the parts together must compute each window exactly once. They do if and only if every part has a
// window and, with more than one part, two further conditions hold: window extent - stride <= 2 *
// pad <= window extent - 1, and the stride divides the extent of every part but the last. Otherwise
// fails; the error says which part or value prevents the cut: "h: part 0 of 3 has extent 7, which
// the stride 2 does not divide". The result depends on the arguments alone, so it is the same on
// all ranks. REQUIRES: taps, dilation and stride > 0, pad >= 0.
Result<AxisCut> CutAxis(char axis, const SlidingWindow& window, std::span<const int64_t> extents);

}  // namespace ucudnn
