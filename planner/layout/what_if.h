// What one layer would cost in every configuration it may have, all others as they are: DeePa's
// Tables 2 and 3. Pure function.
#pragma once

#include <optional>
#include <vector>

#include "planner/layout/strategies.h"

namespace ucudnn::planner {

struct WhatIf {
  ParallelConfiguration configuration;
  double transfer_ms = 0;  // of its inputs, from where the layout has them, and its reduction
  double compute_ms = 0;
  double update_ms = 0;
  double total_ms = 0;
  bool measured = false;                // compute_ms
  std::optional<double> best_total_ms;  // of the best whole plan with the layer so; where known
};

// One row per configuration of `layer`, in its order. `best_total_ms` as DeePa's layout has it, or
// empty.
std::vector<WhatIf> WhatIfTable(
    const PlanningProblem& problem, const Assignment& assignment,
    const std::vector<std::vector<std::optional<double>>>& best_total_ms, int layer);

}  // namespace ucudnn::planner
