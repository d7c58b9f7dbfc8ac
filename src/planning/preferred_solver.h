// The solver that the user prefers. The exact solver replaces it if it is missing or fails.
// Thread-compatible.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "planning/division_solver.h"
#include "planning/knapsack_solver.h"

namespace ucudnn::planning {

class PreferredSolver : public DivisionSolver {
 public:
  // The most time that a plug-in may take: in a command that only plans, and inside a call of a
  // program that waits.
  static constexpr std::chrono::milliseconds kOffline{60000};
  static constexpr std::chrono::milliseconds kInsideCall{1000};

  // `plugin` is the path of a plug-in called `name`; empty: only the exact solver is used.
  PreferredSolver(const std::string& plugin, const char* name, std::chrono::milliseconds most_time);

  // Returns the name of the solver that solved last; before that, the exact solver's.
  const char* Name() const override;
  Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) override;
  // Returns why the exact solver replaces the plug-in; empty if it does not.
  const std::string& why() const { return why_; }

 private:
  std::unique_ptr<DivisionSolver> plugin_;  // null: there is none to use
  bool by_plugin_ = false;                  // the plug-in solved last
  KnapsackSolver exact_;
  std::string why_;
};

}  // namespace ucudnn::planning
