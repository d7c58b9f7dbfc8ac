// Distributes blocks over devices: contiguous runs of about the same cost. A pure function.
#pragma once

#include <span>
#include <vector>

namespace ucudnn::multigrid {

// Cuts `costs` into `runs` runs so that the most expensive run is as cheap as possible. Among such
// cuts, takes the one whose earlier runs are longest. Returns the position at which each run
// begins, and the end: runs + 1 positions. REQUIRES: 1 <= runs <= costs.size(), and no cost is
// negative.
std::vector<int> BalancedRuns(std::span<const double> costs, int runs);

}  // namespace ucudnn::multigrid
