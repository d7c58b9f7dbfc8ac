// Who solves Workspace Division's optimisation problem (mu-cuDNN, equations 1 to 4: a
// multiple-choice knapsack): an interface, implemented by the exact solver here and by plug-ins.
// Implementations are thread-compatible and never throw.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"

namespace ucudnn::planning {

// One way to run a kernel.
struct Choice {
  size_t workspace_bytes = 0;
  double time_ms = 0;
};
using Choices = std::vector<Choice>;

struct Selection {
  std::vector<size_t> chosen;  // of every kernel, the position in its choices
  bool optimal = true;         // proven
  double gap_ms = 0;           // no selection is faster by more; 0 when optimal
};

class DivisionSolver {
 public:
  virtual ~DivisionSolver() = default;

  virtual const char* Name() const = 0;

  // Exactly one choice of each kernel, at most `budget_bytes` in total, in the least total time. An
  // error when there is none, a time is no time, or the sizes are beyond what the solver can count.
  virtual Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) = 0;
};

}  // namespace ucudnn::planning
