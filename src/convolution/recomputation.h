// Forward and backward_data of a cut convolution that compute the rows at the cuts again, from own
// and received rows together, instead of adding the received rows' part to the first result. Two
// cases need this: types whose rounding would show that a sum was made in two steps, and calls that
// apply something else to the sum (an activation). Pure geometry, as in stripes.h; axes are d, h,
// w.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "convolution/stripes.h"

namespace ucudnn {

// The place from which a box of an assembled tensor is copied.
struct AssembledCopy {
  static constexpr int kOwn = -1;

  int message = kOwn;  // a message of Received(); kOwn is the own tensor
  int block = 0;       // a block of the message
  SpatialBox from;     // counted in the block, or in the own tensor
  std::array<int64_t, kMaxSpatial> to = {0, 0, 0};  // place of the first element
};

// A box of the result and the convolution that computes it from an assembled tensor, with the
// caller's operation, filter, stride and dilation. A call of the legacy API, whose pad is the
// same on both sides, can compute it: along every axis x or dy has `assembled` elements, and y or
// dx has as many as `result`.
struct RecomputedBox {
  SpatialBox result;  // of the own y (forward) or dx (backward_data)
  std::array<int64_t, kMaxSpatial> assembled = {0, 0, 0};
  std::array<int64_t, kMaxSpatial> pad = {0, 0, 0};
  std::vector<AssembledCopy> copies;  // disjoint; the rest of the assembled tensor must be zero
};

// Returns disjoint boxes that together are all results of the part to which a halo contributes.
// `received` is stripes.Received(). Empty for backward_filter. The pad of backward_data can exceed
// the window's extent less 1, by less than a stride.
std::vector<RecomputedBox> RecomputedBoxes(const Stripes& stripes,
                                           std::span<const HaloMessage> received);

}  // namespace ucudnn
