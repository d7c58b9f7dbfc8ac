// Estimates how many cycles a solve needs from the residuals of its first two. Pure functions.
#pragma once

#include <optional>

#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

struct ConvergenceEstimate {
  double first = 0;       // the residual after one cycle
  double second = 0;      // the residual after two cycles
  int direct_cycles = 0;  // cycles after which relaxation alone is exact

  // Returns the factor by which the second cycle reduced the residual. The first cycle often raises
  // the residual, so its factor tells nothing.
  double Rate() const { return first > 0 ? second / first : 0; }
};

// Reads the estimate from a solution. REQUIRES: the solve measured its residuals over two cycles or
// more, or ended before.
ConvergenceEstimate EstimateOf(const Solution& solution, int direct_cycles);

// Returns after how many cycles, direct_cycles at most, the residual is at most `tolerance`, if
// every cycle reduces it as the second did. Returns none if a residual is not finite, or if a cycle
// reduces it by less than half: the solver gives up such solves.
std::optional<int> CyclesFor(const ConvergenceEstimate& estimate, double tolerance);

}  // namespace ucudnn::multigrid
