// The built-in solver of Workspace Division: exact, in whole numbers alone, so that every machine
// chooses the same. Sources: the reduction to the linear relaxation's core and the expansion of
// that core by dynamic programming with bounds are Pisinger's ("A minimal algorithm for the
// multiple-choice knapsack problem", 1994); the code is ours.
#pragma once

#include "planning/division_solver.h"

namespace ucudnn::planning {

class KnapsackSolver : public DivisionSolver {
 public:
  // States that are looked at before the search gives up and says how far the best selection may be
  // from the optimum: some hundred megabytes, a second. It comes to that where all choices save in
  // nearly the same proportion to their bytes.
  static constexpr size_t kMostStates = size_t{1} << 23;

  explicit KnapsackSolver(size_t most_states = kMostStates) : most_states_(most_states) {}

  const char* Name() const override { return "exact"; }

  // Times count in units of 2^-30 ms (a picosecond), to which each is rounded; bytes are exact.
  // Among selections of equal time, one of the least total workspace. Kernels' longest times may
  // add up to 2^31 ms, their largest choices within the budget to 2^61 bytes.
  Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) override;

 private:
  const size_t most_states_;
};

}  // namespace ucudnn::planning
