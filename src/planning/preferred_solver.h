// The solver that the user prefers, with the exact one in its place wherever it is missing or
// fails. Thread-compatible.
#pragma once

#include <memory>
#include <string>

#include "planning/division_solver.h"
#include "planning/knapsack_solver.h"

namespace ucudnn::planning {

class PreferredSolver : public DivisionSolver {
 public:
  // `plugin`: the path of a plug-in called `name`; empty: the exact solver.
  explicit PreferredSolver(const std::string& plugin = {}, const char* name = "");

  // Of who solved last; where nothing had to be solved, the exact solver's.
  const char* Name() const override;
  Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) override;
  // Why the exact solver takes the place of the plug-in; empty: it does not.
  const std::string& why() const { return why_; }

 private:
  std::unique_ptr<DivisionSolver> plugin_;  // null: not to be used
  bool by_plugin_ = false;  // the last one was solved
  KnapsackSolver exact_;
  std::string why_;
};

}  // namespace ucudnn::planning
