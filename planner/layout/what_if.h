// The cost of one layer in every configuration that it may have, while all other layers keep
// theirs: DeePa's Tables 2 and 3. Pure function.
#pragma once

#include <optional>
#include <vector>

#include "planner/layout/strategies.h"

namespace ucudnn::planner {

struct WhatIf {
  ParallelConfiguration configuration;
  // The time to move the layer's inputs from the devices that hold them in the layout to the
  // devices that need them, and to reduce the layer's output.
  double transfer_ms = 0;
  double compute_ms = 0;
  double update_ms = 0;
  double total_ms = 0;
  bool measured = false;  // whether compute_ms is measured
  // The total time of the best whole plan in which the layer has this configuration, if known.
  std::optional<double> best_total_ms;
};

// Returns one row per configuration of `layer`, in the order of `problem`. `best_total_ms` is the
// member of DeePa's ParallelLayout, or empty. The rows get their best_total_ms from it.
std::vector<WhatIf> WhatIfTable(
    const PlanningProblem& problem, const Assignment& assignment,
    const std::vector<std::vector<std::optional<double>>>& best_total_ms, int layer);

}  // namespace ucudnn::planner
