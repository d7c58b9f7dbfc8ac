// Compares layouts that follow a rule with the best layout. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/layout/planning_problem.h"
#include "planner/search/search.h"

namespace ucudnn::planner {

enum class Strategy {
  kImage,  // divides every layer's images over all devices
  kModel,  // divides every layer's channels over as many devices as it can
  // Divides fully connected layers like kModel, and all other layers like kImage (Krizhevsky 2014;
  // DeePa, 7).
  kOwt,
  kDeePa,  // minimises the cost by equation 1
};

const char* StrategyName(Strategy strategy);  // "image", "model", "owt" or "deepa"
// An unknown name is an error that lists the known ones.
Result<Strategy> ParseStrategy(std::string_view name);

struct ParallelLayout {
  Strategy strategy = Strategy::kDeePa;
  Assignment assignment;
  LayoutCost cost;
  double lower_bound_ms = 0;  // the search's bound for kDeePa, else the total of `cost`
  bool optimal = false;       // whether the layout is proved to be best; only kDeePa's can be
  // Indexed by [layer][configuration]; empty except for DeePa's layout without a memory limit.
  // Holds SearchResult::best_total_ms if SearchOptions asks for that and the search found it.
  // Otherwise holds only the total of the layout itself, at the layout's own configurations, if the
  // layout is optimal.
  std::vector<std::vector<std::optional<double>>> best_total_ms;
};

// Returns the layout of `strategy` on `devices` devices. Fails if the rule cannot divide a layer
// (the devices do not divide the batch, or a pin contradicts the rule); the error names the layer.
// If `memory_limit_bytes` is given, DeePa's layout keeps to that limit on each device and
// best_total_ms is empty. If no layout fits the limit, the error gives the memory of the smallest
// plan.
Result<ParallelLayout> MakeLayout(const PlanningProblem& problem, int devices, Strategy strategy,
                                  const SearchOptions& options = {},
                                  std::optional<int64_t> memory_limit_bytes = {});

// Returns the layout of each strategy whose rule fits, in the order of Strategy. DeePa's layout is
// always present.
Result<std::vector<ParallelLayout>> CompareLayouts(const PlanningProblem& problem, int devices,
                                                   const SearchOptions& options = {},
                                                   std::optional<int64_t> memory_limit_bytes = {});

}  // namespace ucudnn::planner
