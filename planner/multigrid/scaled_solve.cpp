#include "planner/multigrid/scaled_solve.h"

#include <algorithm>
#include <cmath>

namespace ucudnn::multigrid {

double ScaleOf(std::span<const double> numbers) {
  double largest = 0;
  for (const double number : numbers) largest = std::max(largest, std::abs(number));
  if (largest == 0 || !std::isfinite(largest)) return 1;
  int exponent = 0;
  std::frexp(largest, &exponent);
  return std::ldexp(1.0, -exponent);
}

double KeptScale::For(double fitting, SolveOptions& options) {
  constexpr double kFar = 16;
  const bool is_near = fitting <= kFar * scale_ && scale_ <= kFar * fitting;
  if (options.start == Start::kPrevious && is_near) return scale_;
  if (options.start == Start::kPrevious) options.start = Start::kBroadcast;
  scale_ = fitting;
  return scale_;
}

Result<Solution> SolveScaled(LayerSystem& system, const Hierarchy& hierarchy,
                             const SolveOptions& options, double scale) {
  if (scale == 1) return Solve(system, hierarchy, options);
  SolveOptions of_scaled = options;
  const bool is_absolute = options.scale == ResidualScale::kAbsolute;
  if (is_absolute && of_scaled.tolerance) *of_scaled.tolerance *= scale;
  UCUDNN_ASSIGN_OR_RETURN(Solution solution, Solve(system, hierarchy, of_scaled));
  solution.largest_state /= scale;
  for (double& residual : solution.residuals) {
    if (is_absolute) residual /= scale;
  }
  return solution;
}

}  // namespace ucudnn::multigrid
