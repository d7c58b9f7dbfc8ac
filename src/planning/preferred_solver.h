// The solver that the user prefers, or the exact solver if the preferred one is missing or has
// failed. Thread-compatible.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "planning/division_solver.h"
#include "planning/knapsack_solver.h"

namespace ucudnn::planning {

class PreferredSolver : public DivisionSolver {
 public:
  // The most time that a plug-in may take. kOffline is for a command that only plans, and
  // kInsideCall for a call of the program that waits for the solver.
  static constexpr std::chrono::milliseconds kOffline{60000};
  static constexpr std::chrono::milliseconds kInsideCall{1000};

  // `plugin` is the path of a plug-in that is called `name`. If `plugin` is empty, only the exact
  // solver is used.
  PreferredSolver(const std::string& plugin, const char* name, std::chrono::milliseconds most_time);

  // Returns the name of the solver that made the latest selection. Before the first selection,
  // returns the name of the exact solver.
  const char* Name() const override;
  Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) override;
  // Returns why the exact solver replaces the plug-in; empty if the plug-in is in use or none was
  // named.
  const std::string& why() const { return why_; }

 private:
  std::unique_ptr<DivisionSolver> plugin_;  // null: only exact_ is used
  bool by_plugin_ = false;                  // the plug-in made the latest selection, not exact_
  KnapsackSolver exact_;
  std::string why_;
};

}  // namespace ucudnn::planning
