// Recomputation for forward and backward_data of a cut convolution. A rank computes the rows at the
// cuts again, from its own and the received rows together, instead of adding a contribution of the
// received rows to its first result. Two cases need this: rounding to the tensors' type would show
// that the sum was made in two steps, or the call applies another operation (an activation) to the
// sum. Pure geometry, as in stripes.h; axes are d, h, w.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "convolution/stripes.h"

namespace ucudnn {

// A copy of one box into an assembled tensor.
struct AssembledCopy {
  static constexpr int kOwn = -1;

  int message = kOwn;  // index in Received(); kOwn: this rank's own tensor
  int block = 0;       // index of a block of the message
  SpatialBox from;     // box of the block or of this rank's own tensor
  std::array<int64_t, kMaxSpatial> to = {0, 0, 0};  // where its first element goes
};

// A box of the result, and the convolution that computes it from an assembled tensor. This
// convolution has the caller's operation, filter, stride and dilation. Its input (x in forward, dy
// in backward_data) has assembled[i] elements along axis i, and its output (y or dx) has the
// extents of `result`. Its pad is the same on both sides, so a call of the legacy API can compute
// it.
struct RecomputedBox {
  SpatialBox result;  // of this rank's y (forward) or dx (backward_data)
  std::array<int64_t, kMaxSpatial> assembled = {0, 0, 0};
  std::array<int64_t, kMaxSpatial> pad = {0, 0, 0};
  std::vector<AssembledCopy> copies;  // disjoint; the rest of the assembled tensor must be zero
};

// Returns disjoint boxes that together cover exactly the results of this rank's part to which a
// halo contributes; none for backward_filter. `received` is stripes.Received(). In backward_data
// the pad of a box can exceed the window's extent minus 1, by less than a stride.
std::vector<RecomputedBox> RecomputedBoxes(const Stripes& stripes,
                                           std::span<const HaloMessage> received);

}  // namespace ucudnn
