// Which micro-batch sizes a policy considers. Pure functions.
// Source: mu-cuDNN, section III-D (policies undivided, powerOfTwo, all).
#pragma once

#include <vector>

#include "base/options.h"

namespace ucudnn::planning {

// Sizes to measure for a mini-batch of `n` whose batch boundaries are legal at multiples of `step`:
// undivided {n}; powerOfTwo {1, 2, 4, ... < n} and n; all {1 ... n}; each cut to multiples of
// `step`, with n itself and the remainder n mod step, which only a last piece may have. Rising.
std::vector<int> MicroBatchSizes(BatchSizePolicy policy, int n, int step);

}  // namespace ucudnn::planning
