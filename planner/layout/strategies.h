// Layouts by a rule and the best one, side by side. Pure functions.
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
  kImage,  // every layer's images over all devices
  kModel,  // every layer's channels over as many devices as divide them
  kOwt,  // fully connected layers as in kModel, all others as in kImage (Krizhevsky 2014; DeePa, 7)
  kDeePa,  // the least of equation 1
};

const char* StrategyName(Strategy strategy);  // image, model, owt, deepa
// An unknown name is an error that lists the known ones.
Result<Strategy> ParseStrategy(std::string_view name);

struct ParallelLayout {
  Strategy strategy = Strategy::kDeePa;
  Assignment assignment;
  LayoutCost cost;
  double lower_bound_ms = 0;  // DeePa's; the others have their own total here
  bool optimal = false;       // proved to be the least, which DeePa's alone can be
  // DeePa's without a memory limit: SearchResult::best_total_ms where SearchOptions asks for it and
  // it is known, else the total of an optimal layout for its own configurations. Empty otherwise.
  // [layer][configuration].
  std::vector<std::vector<std::optional<double>>> best_total_ms;
};

// The layout of `strategy` on `devices` devices. An error names the layer that cannot be divided
// so: a batch that the devices do not divide, a pin against the rule. DeePa's keeps to
// `memory_limit_bytes` of each device where that is given; then no best totals are known, and an
// error says what the least plan needs where nothing fits.
Result<ParallelLayout> MakeLayout(const PlanningProblem& problem, int devices, Strategy strategy,
                                  const SearchOptions& options = {},
                                  std::optional<int64_t> memory_limit_bytes = {});

// The layout of each strategy that exists, in their order above; DeePa's is always there.
Result<std::vector<ParallelLayout>> CompareLayouts(const PlanningProblem& problem, int devices,
                                                   const SearchOptions& options = {},
                                                   std::optional<int64_t> memory_limit_bytes = {});

}  // namespace ucudnn::planner
