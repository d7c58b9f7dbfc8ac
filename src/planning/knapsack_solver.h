// The built-in solver of Workspace Division. It is exact, and computes in whole numbers only, so
// that every machine selects the same choices. Two methods are from Pisinger, "A minimal algorithm
// for the multiple-choice knapsack problem", 1994: the reduction to the core of the linear
// relaxation, and the expansion of the core by dynamic programming with bounds. The code is new.
#pragma once

#include "planning/division_solver.h"

namespace ucudnn::planning {

class KnapsackSolver : public DivisionSolver {
 public:
  // The search stops before it has tried more states than this. This number of states takes about a
  // second and several hundred MB of memory. If a search was stopped, Selection::gap_ms says how
  // far its selection may be from the optimum. A search reaches the limit if all choices save time
  // in nearly the same proportion to their bytes.
  static constexpr size_t kMostStates = size_t{1} << 23;

  explicit KnapsackSolver(size_t most_states = kMostStates) : most_states_(most_states) {}

  const char* Name() const override { return "exact"; }

  // Times are rounded to units of 2^-30 ms (a picosecond); bytes are exact. If several selections
  // take the least time, one with the least total workspace is returned. The limits count only
  // choices within the budget: the sum of all kernels' longest times may be at most 2^31 ms, and
  // the sum of all kernels' largest workspaces 2^61 bytes.
  Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) override;

 private:
  const size_t most_states_;
};

}  // namespace ucudnn::planning
