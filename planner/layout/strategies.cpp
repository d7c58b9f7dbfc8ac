#include "planner/layout/strategies.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

constexpr const char* kNames[] = {"image", "model", "owt", "deepa"};
constexpr Strategy kStrategies[] = {Strategy::kImage, Strategy::kModel, Strategy::kOwt,
                                    Strategy::kDeePa};

// Returns the position of the configuration {n = devices}. With `by_channels`, returns instead the
// position of the configuration with the largest degree c among those that divide only channels.
// Returns -1 if there is none.
int Find(const std::vector<ParallelConfiguration>& configurations, bool by_channels, int devices) {
  int found = -1;
  for (size_t at = 0; at < configurations.size(); ++at) {
    const Degrees& degrees = configurations[at].degrees;
    if (configurations[at].first_device != 0) continue;
    if (by_channels ? degrees.Workers() != degrees.c : !(degrees == Degrees{devices})) continue;
    if (found < 0 || degrees.c > configurations[static_cast<size_t>(found)].degrees.c) {
      found = static_cast<int>(at);
    }
  }
  return found;
}

Result<Assignment> ByRule(const PlanningProblem& problem, int devices, Strategy strategy) {
  Assignment assignment;
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    const PlannedLayer& layer = problem.graph.layers[at];
    const bool by_channels =
        strategy == Strategy::kModel ||
        (strategy == Strategy::kOwt && std::holds_alternative<FullyConnected>(layer.op));
    const int found = Find(problem.configurations[at], by_channels, devices);
    if (found < 0) {
      return Status::Error(
          "strategy " + std::string(StrategyName(strategy)) + ": layer " + Quoted(layer.name) +
          " with output " + Describe(layer.output) + " has no configuration that divides " +
          (by_channels ? "channels only" : "images by " + std::to_string(devices)));
    }
    assignment.push_back(found);
  }
  return assignment;
}

std::vector<std::vector<std::optional<double>>> TotalsOf(const SearchProblem& problem,
                                                         const SearchResult& result) {
  std::vector<std::vector<std::optional<double>>> totals;
  for (size_t layer = 0; layer < problem.layers.size(); ++layer) {
    if (!result.best_total_ms.empty()) {
      const std::vector<double>& known = result.best_total_ms[layer];
      totals.emplace_back(known.begin(), known.end());
      continue;
    }
    totals.emplace_back(problem.layers[layer].ms.size());
    if (!result.optimal) continue;
    const Plan& plan = result.plans.front();
    totals.back()[static_cast<size_t>(plan.assignment[layer])] = plan.total_ms;
  }
  return totals;
}

// Returns the layout of least cost by DeePa's equation 1, within `memory_limit_bytes` if given.
Result<ParallelLayout> Least(const PlanningProblem& problem, const SearchOptions& options,
                             std::optional<int64_t> memory_limit_bytes) {
  ParallelLayout layout;
  if (memory_limit_bytes) {
    UCUDNN_ASSIGN_OR_RETURN(LimitedResult result,
                            SearchWithin(problem.search, *memory_limit_bytes, options));
    layout.assignment = std::move(result.plan.assignment);
    layout.lower_bound_ms = result.lower_bound_ms;
    layout.optimal = result.optimal;
  } else {
    UCUDNN_ASSIGN_OR_RETURN(const SearchResult result, Search(problem.search, options));
    layout.assignment = result.plans.front().assignment;
    layout.lower_bound_ms = result.lower_bound_ms;
    layout.optimal = result.optimal;
    layout.best_total_ms = TotalsOf(problem.search, result);
  }
  layout.cost = CostOf(problem, layout.assignment);
  return layout;
}

}  // namespace

const char* StrategyName(Strategy strategy) { return kNames[static_cast<size_t>(strategy)]; }

Result<Strategy> ParseStrategy(std::string_view name) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    return Status::Error(Quoted(name) + " is no strategy; expected one of " +
                         Join({std::begin(kNames), std::end(kNames)}, ", "));
  }
  return kStrategies[found - std::begin(kNames)];
}

Result<ParallelLayout> MakeLayout(const PlanningProblem& problem, int devices, Strategy strategy,
                                  const SearchOptions& options,
                                  std::optional<int64_t> memory_limit_bytes) {
  if (strategy == Strategy::kDeePa) return Least(problem, options, memory_limit_bytes);
  ParallelLayout layout;
  layout.strategy = strategy;
  UCUDNN_ASSIGN_OR_RETURN(layout.assignment, ByRule(problem, devices, strategy));
  layout.cost = CostOf(problem, layout.assignment);
  layout.lower_bound_ms = layout.cost.total_ms;
  return layout;
}

Result<std::vector<ParallelLayout>> CompareLayouts(const PlanningProblem& problem, int devices,
                                                   const SearchOptions& options,
                                                   std::optional<int64_t> memory_limit_bytes) {
  std::vector<ParallelLayout> layouts;
  for (const Strategy strategy : kStrategies) {
    auto layout = MakeLayout(problem, devices, strategy, options, memory_limit_bytes);
    if (!layout.ok() && strategy == Strategy::kDeePa) return layout.status();
    if (layout.ok()) layouts.push_back(std::move(*layout));
  }
  return layouts;
}

}  // namespace ucudnn::planner
