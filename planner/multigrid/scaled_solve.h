// Solves linear chains, such as adjoints, scaled by a power of two, because small numbers would
// lose bits in a number type with few exponents.
#pragma once

#include <span>

#include "base/status.h"
#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/layer_system.h"
#include "planner/multigrid/solver.h"

namespace ucudnn::multigrid {

// Returns a power of two that scales the largest of `numbers` to about 1; returns 1 if the largest
// is 0 or not finite.
double ScaleOf(std::span<const double> numbers);

// Keeps the scale of states from one solve to the next.
class KeptScale {
 public:
  // Returns the scale for a solve whose own scale would be `fitting`. A solve with Start::kPrevious
  // keeps the scale of its states, unless that scale is far from `fitting`; then For sets
  // options.start to a broadcast.
  double For(double fitting, SolveOptions& options);

 private:
  double scale_ = 1;
};

// Solves `system`, whose first state is `scale` times the wanted one. `options` are for the
// unscaled system, and the returned Solution is unscaled, too; the states stay scaled.
Result<Solution> SolveScaled(LayerSystem& system, const Hierarchy& hierarchy,
                             const SolveOptions& options, double scale);

}  // namespace ucudnn::multigrid
