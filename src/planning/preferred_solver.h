// The solver that the user prefers, with the exact one in its place wherever it is missing or
// fails. Thread-compatible.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "planning/division_solver.h"
#include "planning/knapsack_solver.h"

namespace ucudnn::planning {

class PreferredSolver : public DivisionSolver {
 public:
  // What a plug-in may take: of a program that is not held up by it, and of one whose call waits.
  static constexpr std::chrono::milliseconds kOffline{60000};
  static constexpr std::chrono::milliseconds kInsideCall{1000};

  // `plugin`: the path of a plug-in called `name`; empty: the exact solver.
  PreferredSolver(const std::string& plugin, const char* name, std::chrono::milliseconds most_time);

  // Of who solved last; where nothing had to be solved, the exact solver's.
  const char* Name() const override;
  Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) override;
  // Why the exact solver takes the place of the plug-in; empty: it does not.
  const std::string& why() const { return why_; }

 private:
  std::unique_ptr<DivisionSolver> plugin_;  // null: not to be used
  bool by_plugin_ = false;                  // the last one was solved
  KnapsackSolver exact_;
  std::string why_;
};

}  // namespace ucudnn::planning
