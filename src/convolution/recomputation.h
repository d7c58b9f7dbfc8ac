// Forward and backward_data of a cut convolution by computing the rows at the cuts a second time,
// from own and received rows together, instead of adding to them: for types whose rounding would
// show that a sum was made in two steps, and for calls behind whose sum something else happens (an
// activation). Pure geometry, as in stripes.h; axes are d, h, w.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "convolution/stripes.h"

namespace ucudnn {

// Where a box of an assembled tensor comes from.
struct AssembledCopy {
  static constexpr int kOwn = -1;

  int message = kOwn;                               // of Received(); kOwn is the own tensor
  int block = 0;                                    // of the message
  SpatialBox from;                                  // counted in the block, or in the own tensor
  std::array<int64_t, kMaxSpatial> to = {0, 0, 0};  // the first element's place
};

// A box of the result and the convolution, of the caller's operation, filter, stride and dilation,
// that computes it from a tensor that is assembled for it. Its extents are those of a call of the
// legacy API, whose pad is the same on both sides: extent `assembled` of x or dy and `result` of y
// or dx along every axis.
struct RecomputedBox {
  SpatialBox result;  // of the own y (forward) or dx (backward_data)
  std::array<int64_t, kMaxSpatial> assembled = {0, 0, 0};
  std::array<int64_t, kMaxSpatial> pad = {0, 0, 0};
  std::vector<AssembledCopy> copies;  // disjoint; all else of the assembled tensor must be zero
};

// The disjoint boxes that are, all together, the own rows to which a halo row contributes along
// some axis; no other rows of the result depend on a message. `received` is Received() of
// `stripes`. Empty for backward_filter. The pad of backward_data can be larger than the window's
// extent less 1, by less than a stride.
std::vector<RecomputedBox> RecomputedBoxes(const Stripes& stripes,
                                           std::span<const HaloMessage> received);

}  // namespace ucudnn
