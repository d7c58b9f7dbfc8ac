// The batch-size policy `auto`: chooses which micro-batch sizes to measure next, given the
// measurements so far. A pure, deterministic search, so that ranks with the same rows ask for the
// same sizes. Source: the other policies are mu-cuDNN's (section III-D); this one is new.
//
// Time and workspace of every engine are interpolated between the measured sizes. The fastest
// division over measured and expected rows names the sizes to measure next, until it needs none. In
// a first phase (refining) expected times count as a little longer, since a gain below 0.5 % is not
// worth a measurement. In a second (exploring) they count as a little shorter if the gap between
// measured sizes is wide, since a line passes over valleys.
//
// Parts whose workspace fits the L2 cache, or half of it, are always tried: they may beat even the
// undivided call without a limit. Asks for at most 1.5 times as many sizes as policy powerOfTwo
// has; every round asks for at least one new size.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "options/options.h"
#include "planning/promise.h"

namespace ucudnn::planning {

struct AutoRequest {
  PromiseRequest promise;  // the purpose of the measurements
  size_t l2_bytes = 0;     // of the device; 0: unknown
};

// Returns the sizes to measure next, ascending; empty when the search is over. `asked` holds the
// sizes that this search has asked for so far, in any order; rows of `measured` at other sizes are
// ignored. A size without a row could not be measured, and an engine without a row at a size does
// not run there.
std::vector<int> NextSizes(std::span<const Candidate> measured, std::span<const int> asked,
                           const AutoRequest& request);

// Returns sizes that tell whether a kernel can be brought under a limit, for any policy: n itself,
// parts of it, and the smallest size of the policy. The sizes are ascending and few, even if the
// policy has many.
std::vector<int> FittingSizes(BatchSizePolicy policy, int n, int step);

}  // namespace ucudnn::planning
