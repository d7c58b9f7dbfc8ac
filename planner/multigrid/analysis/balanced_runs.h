// Which device has which blocks: contiguous runs of about the same cost. A pure function.
#pragma once

#include <span>
#include <vector>

namespace ucudnn::multigrid {

// Cuts `costs` into `runs` runs so that the dearest is as cheap as can be, and of the cuts that
// achieve that, the one whose earlier runs are longest. Returns where each run begins, and the end:
// runs + 1 positions. REQUIRES: 1 <= runs <= costs.size(), and no cost is negative.
std::vector<int> BalancedRuns(std::span<const double> costs, int runs);

}  // namespace ucudnn::multigrid
