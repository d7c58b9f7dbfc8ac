// Solves of linear chains, as adjoints are, scaled by a power of two: so that small numbers lose
// nothing where states have few exponents.
#pragma once

#include <span>

#include "base/status.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/layer_system.h"
#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

// A power of two that makes the largest of `numbers` about 1; 1 where that is 0 or not finite.
double ScaleOf(std::span<const double> numbers);

// The scale of states that several solves have one after the other.
class KeptScale {
 public:
  // For a solve whose own scale would be `fitting`: one that starts from the states as they are
  // keeps theirs, unless it is far from that; then it starts from a broadcast.
  double For(double fitting, SolveOptions& options);

 private:
  double scale_ = 1;
};

// Solves `system`, whose first state is `scale` times what is asked for, to options that are meant
// unscaled. The solution is unscaled; states are not.
Result<Solution> SolveScaled(LayerSystem& system, const Hierarchy& hierarchy,
                             const SolveOptions& options, double scale);

}  // namespace ucudnn::multigrid
