// Solvers of Workspace Division's optimisation problem, a multiple-choice knapsack (mu-cuDNN,
// equations 1 to 4). The exact solver and plug-ins implement this interface. Implementations are
// thread-compatible, and throw only if memory runs out.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"

namespace ucudnn::planning {

// The workspace and the time of one way to run a kernel.
struct Choice {
  size_t workspace_bytes = 0;
  double time_ms = 0;
};
using Choices = std::vector<Choice>;

struct Selection {
  std::vector<size_t> chosen;  // for each kernel, an index into its choices
  bool optimal = true;         // the selection is proven to be the fastest within the budget
  double gap_ms = 0;           // no selection is faster by more than this; 0 when optimal
};

class DivisionSolver {
 public:
  virtual ~DivisionSolver() = default;

  virtual const char* Name() const = 0;

  // Selects one choice for each kernel, so that all choices together fit `budget_bytes` and the
  // total time is least. Fails if no selection fits, if a time is negative or not finite, or if the
  // sizes exceed what the solver can count.
  virtual Result<Selection> Solve(std::span<const Choices> kernels, size_t budget_bytes) = 0;
};

}  // namespace ucudnn::planning
