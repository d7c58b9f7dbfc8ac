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

// The elements and the windows that each part owns, as intervals of the whole axis. Both lists are
// in ascending order, begin at 0 and have no gaps. An axis that is not cut has one part.
struct AxisCut {
  SlidingWindow window;
  std::vector<Interval> elements;
  std::vector<Interval> windows;

  int Parts() const { return static_cast<int>(elements.size()); }
};

// Cuts `axis` (the letter d, h or w, for messages) into parts of `extents` elements. Each part's
// own convolution has the window and the pad of the whole convolution. Together these convolutions
// must compute each window of the whole convolution exactly once. So each part must have a window.
// If there are several parts, two further conditions must hold: window extent - stride <= 2 * pad
// <= window extent - 1, and the stride divides the extent of every part but the last. If a
// condition does not hold, the error says which part or value prevents the cut: "h: part 0 of 3 has
// extent 7, which the stride 2 does not divide". The result depends on the arguments alone, so it
// is the same on all ranks. REQUIRES: taps, dilation and stride > 0, pad >= 0.
Result<AxisCut> CutAxis(char axis, const SlidingWindow& window, std::span<const int64_t> extents);

}  // namespace ucudnn
