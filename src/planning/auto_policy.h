// The batch-size policy `auto`: chooses which micro-batch sizes to measure next, given the
// measurements so far. A pure, deterministic search, so that ranks with the same measurements ask
// for the same sizes. The other policies are from mu-cuDNN (section III-D); this policy is new.
//
// Time and workspace of every engine are interpolated between the measured sizes. In each round the
// search finds the fastest division by measured and expected values, and asks for the sizes of this
// division that were not measured yet. The search is over when there are none. The first rounds
// (refining) raise expected times a little, because a gain below 0.5 % is not worth a measurement.
// The later rounds (exploring) lower expected times a little where the gap between measured sizes
// is wide, because the true curve may have a valley below the interpolating line.
//
// The search also asks for the sizes of equal parts whose workspace fits the L2 cache, or half of
// it. The parts have the engine of the fastest division or of the fastest undivided call. Even
// without a limit such parts may be faster than the undivided call. In total the search asks for at
// most 1.5 times as many sizes as policy powerOfTwo has, and for at least one new size in each
// round but the last.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "options/options.h"
#include "planning/promise.h"

namespace ucudnn::planning {

struct AutoRequest {
  PromiseRequest promise;  // the promise for which the engines are measured
  size_t l2_bytes = 0;     // size of the device's L2 cache; 0: unknown
};

// Returns the sizes to measure next, ascending; empty when the search is over. `asked` holds the
// sizes that this search has asked for so far, in any order; rows of `measured` at other sizes are
// ignored. If `measured` has no row at a size in `asked`, that size could not be measured. If it
// has rows there, an engine without a row does not run at that size.
std::vector<int> NextSizes(std::span<const Candidate> measured, std::span<const int> asked,
                           const AutoRequest& request);

// Returns a few of the sizes that `policy` measures, ascending: n, parts of n and the smallest size
// of the policy. Measurements at these sizes show whether a kernel can fit a limit.
std::vector<int> FittingSizes(BatchSizePolicy policy, int n, int step);

}  // namespace ucudnn::planning
