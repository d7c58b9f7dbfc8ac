// The built-in solver of Workspace Division. It is exact and computes only in whole numbers, so
// that every machine chooses the same. The reduction to the core of the linear relaxation, and the
// expansion of that core by dynamic programming with bounds, are from Pisinger: "A minimal
// algorithm for the multiple-choice knapsack problem", 1994; the code is new.
#pragma once

#include "planning/division_solver.h"

namespace ucudnn::planning {

class KnapsackSolver : public DivisionSolver {
 public:
  // After this many states, which take some hundred megabytes and a second, the search gives up and
  // says how far its selection may be from the optimum. That happens if all choices save in nearly
  // the same proportion to their bytes.
  static constexpr size_t kMostStates = size_t{1} << 23;

  explicit KnapsackSolver(size_t most_states = kMostStates) : most_states_(most_states) {}

  const char* Name() const override { return "exact"; }

  // Times are rounded to units of 2^-30 ms (a picosecond); bytes are exact. Among selections of
  // equal time, one of the least total workspace. Kernels' longest times may add up to 2^31 ms, and
  // their largest choices within the budget to 2^61 bytes.
  Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) override;

 private:
  const size_t most_states_;
};

}  // namespace ucudnn::planning
