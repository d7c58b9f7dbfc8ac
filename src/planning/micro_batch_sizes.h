// The micro-batch sizes that a policy considers. Pure function. Source: mu-cuDNN, section III-D
// (policies undivided, powerOfTwo, all).
#pragma once

#include <vector>

#include "options/options.h"

namespace ucudnn::planning {

// Returns the sizes to measure, ascending, for a mini-batch of `n` that may be divided at multiples
// of `step`. undivided: {n}; powerOfTwo: {1, 2, 4, ... < n} and n; all: {1 ... n}. Leaves out sizes
// that are not multiples of `step`, but not n, and not n mod step, which only a last piece may
// have.
std::vector<int> MicroBatchSizes(BatchSizePolicy policy, int n, int step);

}  // namespace ucudnn::planning
