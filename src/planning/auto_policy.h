// The batch-size policy `auto`: which micro-batch sizes to measure next, given what the sizes
// before told. A pure, deterministic search: ranks that see the same rows ask for the same sizes.
// Source: the other policies are mu-cuDNN's (section III-D); this one is ours.
//
// Time and workspace of every engine are interpolated between the sizes measured. The fastest
// division over measured and expected rows names the sizes to measure next, until it needs none:
// first with expected times a little longer than they look (refining: a gain below 0.5 % is not
// worth a measurement), then a little shorter where the gap between measured sizes is wide
// (exploring: lines pass over valleys). Parts whose workspace fits the L2 cache, or half of it, are
// always tried: they may beat even the undivided call without a limit.
//
// Bound: 1.5 times as many sizes as policy powerOfTwo has. Every round asks for at least one new
// size.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "planning/promise.h"

namespace ucudnn::planning {

struct AutoRequest {
  PromiseRequest promise;  // what the measurements are for
  size_t l2_bytes = 0;     // L2 cache of the device; 0: unknown
};

// The sizes to measure next, rising; empty when the search is over. `asked` are the sizes this
// search has asked for so far, in any order; rows of `measured` at other sizes are not looked at. A
// size without a row could not be measured, an engine without a row at a size does not run it.
std::vector<int> NextSizes(std::span<const Candidate> measured, std::span<const int> asked,
                           const AutoRequest& request);

}  // namespace ucudnn::planning
