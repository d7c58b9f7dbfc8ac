// How many cycles a solve needs, from the residuals of its first two. Pure functions.
#pragma once

#include <optional>

#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

struct ConvergenceEstimate {
  double first = 0;       // the residual after one cycle
  double second = 0;      // and after two
  int direct_cycles = 0;  // that make relaxation alone exact

  // What the second cycle left of the residual. The first often raises it, and says nothing.
  double Rate() const { return first > 0 ? second / first : 0; }
};

// REQUIRES: the solve measured its residuals over two cycles or more, or ended before.
ConvergenceEstimate EstimateOf(const Solution& solution, int direct_cycles);

// The cycles until the residual is at most `tolerance`, if it goes on to fall as in the second
// cycle: at most direct_cycles. None where it falls by less than half in a cycle, which the solver
// gives up, or is not finite.
std::optional<int> CyclesFor(const ConvergenceEstimate& estimate, double tolerance);

}  // namespace ucudnn::multigrid
