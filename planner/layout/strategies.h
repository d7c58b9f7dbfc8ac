// Layouts by a rule, and the best layout, side by side. Pure functions.
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
  // Treats fully connected layers as kModel does, all others as kImage does (Krizhevsky 2014;
  // DeePa, 7).
  kOwt,
  kDeePa,  // the least cost by equation 1
};

const char* StrategyName(Strategy strategy);  // "image", "model", "owt" or "deepa"
// An unknown name is an error that lists the known ones.
Result<Strategy> ParseStrategy(std::string_view name);

struct ParallelLayout {
  Strategy strategy = Strategy::kDeePa;
  Assignment assignment;
  LayoutCost cost;
  double lower_bound_ms = 0;  // DeePa's bound; other strategies give their own total here
  bool optimal = false;       // proved to be the least; only DeePa's layout can be
  // Only for DeePa's layout without a memory limit: SearchResult::best_total_ms if SearchOptions
  // asks for it and it is known, else the total of an optimal layout for its own configurations.
  // Empty otherwise. Indexed by [layer][configuration].
  std::vector<std::vector<std::optional<double>>> best_total_ms;
};

// Returns the layout of `strategy` on `devices` devices. Fails if a layer cannot be divided by the
// rule (the devices do not divide the batch, or a pin contradicts the rule); the error names the
// layer. If `memory_limit_bytes` is given, DeePa's layout keeps to that limit on each device. Then
// no best totals are known, and if nothing fits, the error says what the smallest plan needs.
Result<ParallelLayout> MakeLayout(const PlanningProblem& problem, int devices, Strategy strategy,
                                  const SearchOptions& options = {},
                                  std::optional<int64_t> memory_limit_bytes = {});

// Returns the layout of each strategy that has one, in the order above. DeePa's is always there.
Result<std::vector<ParallelLayout>> CompareLayouts(const PlanningProblem& problem, int devices,
                                                   const SearchOptions& options = {},
                                                   std::optional<int64_t> memory_limit_bytes = {});

}  // namespace ucudnn::planner
