#include "planner/multigrid/analysis/convergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ucudnn::multigrid {

constexpr double kSlowestRate = 0.5;  // the solver gives up solves with slower rates

ConvergenceEstimate EstimateOf(const Solution& solution, int direct_cycles) {
  ConvergenceEstimate estimate;
  estimate.direct_cycles = direct_cycles;
  const size_t known = solution.residuals.size();
  const double none = std::numeric_limits<double>::quiet_NaN();
  estimate.first = known > 1 ? solution.residuals[1] : none;
  // After a single cycle, the solve has reached its tolerance or cannot improve.
  estimate.second = known > 2 ? solution.residuals[2] : estimate.first;
  return estimate;
}

std::optional<int> CyclesFor(const ConvergenceEstimate& estimate, double tolerance) {
  if (!std::isfinite(estimate.first) || !std::isfinite(estimate.second)) return std::nullopt;
  if (estimate.first <= tolerance) return 1;
  if (estimate.direct_cycles <= 2) return 2;
  const double rate = estimate.Rate();
  if (rate > kSlowestRate) return std::nullopt;
  if (estimate.second <= tolerance) return 2;
  // Without the 1e-9, rounding of the logarithms might turn a whole number of cycles into one more.
  const double more = std::log(tolerance / estimate.second) / std::log(rate);
  return std::min(2 + static_cast<int>(std::ceil(more - 1e-9)), estimate.direct_cycles);
}

}  // namespace ucudnn::multigrid
