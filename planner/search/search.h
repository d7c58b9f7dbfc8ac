// The assignment of least cost, with its proof. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/search/elimination_order.h"
#include "planner/search/problem.h"

namespace ucudnn::planner {

struct SearchOptions {
  int plans = 1;           // how many of the best
  bool marginals = false;  // best_total_ms, too
  // What an elimination may take; predicted before it runs. Without it a bound is proved.
  double most_entries = 1 << 27;  // of 8 bytes, in all tables together
  double most_operations = 2e10;
};

// Whether the options allow an elimination.
bool Fits(const EliminationOrder& order, const SearchOptions& options);

struct Plan {
  Assignment assignment;
  double total_ms = 0;  // equation 1, summed from scratch

  bool operator==(const Plan&) const = default;
};

struct SearchResult {
  std::vector<Plan> plans;  // rising; fewer than asked where there are no more
  // No assignment takes less. Equal to plans[0].total_ms but for rounding where `optimal`.
  double lower_bound_ms = 0;
  bool optimal = false;
  // best_total_ms[v][c]: of the best plan with layer v in configuration c. Empty unless asked for,
  // and where the elimination of the whole problem would take more than the options allow.
  std::vector<std::vector<double>> best_total_ms;
};

// The least of equation 1. What one elimination takes little time for is eliminated. Else a dual
// bound (DualAscent) that a plan meets proves it; where none does, what the bound leaves of the
// problem is eliminated. An error for a problem that Check refuses. Without `optimal` there is one
// plan, which no change of one layer improves.
Result<SearchResult> Search(const SearchProblem& problem, const SearchOptions& options = {});

// Search by the dual bound whatever an elimination would take, and without marginals.
Result<SearchResult> SearchByDual(const SearchProblem& problem, const SearchOptions& options = {});

// The total of the best plan with `layer` in each of its configurations, by marginals or a search
// with each, whichever is predicted to be sooner done. None where the search's share of what
// `options` allow does not prove it. Errors: Search's.
Result<std::vector<std::optional<double>>> BestTotals(const SearchProblem& problem, int layer,
                                                      SearchOptions options = {});

struct LimitedResult {
  Plan plan;
  int64_t bytes = 0;          // of the plan
  double lower_bound_ms = 0;  // no plan within the limit takes less
  bool optimal = false;
};

constexpr int kMostPlans = 20'000;

// The fastest plan whose TotalBytes is at most `limit_bytes`: the minimum of time plus a price per
// byte for the price that makes the strictest bound, then plans by rising such cost until the bound
// meets the best one that fits, or `most_plans` were looked at. Errors: Search's, and a limit below
// what the smallest plan needs, which is named.
Result<LimitedResult> SearchWithin(const SearchProblem& problem, int64_t limit_bytes,
                                   const SearchOptions& options = {}, int most_plans = kMostPlans);

struct ParetoPoint {
  Plan plan;
  int64_t bytes = 0;
  bool optimal = false;
};

// Plans that no other found beats in both time and memory, by rising time: SearchWithin at `points`
// limits from what the fastest plan needs down to the least that any does.
Result<std::vector<ParetoPoint>> TimeMemoryFrontier(const SearchProblem& problem, int points,
                                                    const SearchOptions& options = {});

}  // namespace ucudnn::planner
