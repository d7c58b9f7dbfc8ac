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

// Keeps the scale of states from one solve to the next. `fitting` is the scale that suits the next
// solve's own numbers.
class KeptScale {
 public:
  // Returns the scale for the next solve. That is the kept scale if the solve has Start::kPrevious
  // and the kept scale is within a factor of 16 of `fitting`. Otherwise it is `fitting`, and a
  // start kPrevious in `options` becomes kBroadcast.
  double For(double fitting, SolveOptions& options);

 private:
  double scale_ = 1;
};

// Solves `system`, whose first state the caller has multiplied by `scale`. `options` and the
// returned Solution are those of the unscaled system; the states stay scaled.
Result<Solution> SolveScaled(LayerSystem& system, const Hierarchy& hierarchy,
                             const SolveOptions& options, double scale);

}  // namespace ucudnn::multigrid
