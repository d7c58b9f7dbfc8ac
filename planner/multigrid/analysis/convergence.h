// Estimates the number of cycles that a solve needs from its first two residuals. Pure functions.
#pragma once

#include <optional>

#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

struct ConvergenceEstimate {
  double first = 0;       // the residual after one cycle
  double second = 0;      // the residual after two cycles
  int direct_cycles = 0;  // number of cycles after which relaxation alone gives the exact solution

  // Returns the factor by which the second cycle reduced the residual. The factor of the first
  // cycle is no measure of convergence, because that cycle often raises the residual.
  double Rate() const { return first > 0 ? second / first : 0; }
};

// Takes the residuals from a solution. REQUIRES: the solve measured the residuals of its first two
// cycles, or ended earlier.
ConvergenceEstimate EstimateOf(const Solution& solution, int direct_cycles);

// Returns the number of cycles, at most direct_cycles, after which the residual is at most
// `tolerance`. Assumes that every further cycle reduces the residual as the second one did. Returns
// none if a residual is not finite or if a cycle leaves more than half of the residual, because the
// solver gives up such solves.
std::optional<int> CyclesFor(const ConvergenceEstimate& estimate, double tolerance);

}  // namespace ucudnn::multigrid
