// Finds the assignment of least cost, with its proof. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/search/elimination_order.h"
#include "planner/search/problem.h"

namespace ucudnn::planner {

struct SearchOptions {
  int plans = 1;           // number of best plans
  bool marginals = false;  // fills best_total_ms too
  // Limits of an elimination; its cost is predicted before it runs. Above them a bound is proved
  // instead.
  double most_entries = 1 << 27;  // entries of 8 bytes, in all tables together
  double most_operations = 2e10;
};

// Returns whether the options allow an elimination.
bool Fits(const EliminationOrder& order, const SearchOptions& options);

struct Plan {
  Assignment assignment;
  double total_ms = 0;  // equation 1, summed from scratch

  bool operator==(const Plan&) const = default;
};

struct SearchResult {
  std::vector<Plan> plans;  // in ascending order of total; fewer than asked if there are no more
  // No assignment takes less. If `optimal`, equal to plans[0].total_ms within rounding.
  double lower_bound_ms = 0;
  bool optimal = false;
  // best_total_ms[v][c] is the total of the best plan with layer v in configuration c. Empty unless
  // asked for; empty also if the elimination of the whole problem would take more than the options
  // allow.
  std::vector<std::vector<double>> best_total_ms;
};

// Finds the least of equation 1. If one elimination takes little time, the whole problem is
// eliminated. Else a dual bound (DualAscent) that a plan meets proves the least; if no plan meets
// it, what the bound leaves of the problem is eliminated. Fails if Check() refuses the problem. If
// the result is not `optimal`, there is one plan, which no change of one layer improves.
Result<SearchResult> Search(const SearchProblem& problem, const SearchOptions& options = {});

// Searches by the dual bound whatever an elimination would take, and without marginals.
Result<SearchResult> SearchByDual(const SearchProblem& problem, const SearchOptions& options = {});

// Returns the total of the best plan with `layer` in each of its configurations, by marginals or by
// one search for each, whichever is predicted to be faster. A total is none if the search's share
// of what `options` allow does not prove it. Fails if Search() fails.
Result<std::vector<std::optional<double>>> BestTotals(const SearchProblem& problem, int layer,
                                                      SearchOptions options = {});

struct LimitedResult {
  Plan plan;
  int64_t bytes = 0;          // of the plan
  double lower_bound_ms = 0;  // no plan within the limit takes less
  bool optimal = false;
};

constexpr int kMostPlans = 20'000;

// Finds the fastest plan whose TotalBytes() is at most `limit_bytes`. It first minimises time plus
// a price per byte, for the price that gives the strictest bound. Then it lists plans in ascending
// order of this cost until the bound meets the best plan that fits, or `most_plans` were listed.
// Fails if Search() fails, or if the limit is below the need of the smallest plan, which the error
// names.
Result<LimitedResult> SearchWithin(const SearchProblem& problem, int64_t limit_bytes,
                                   const SearchOptions& options = {}, int most_plans = kMostPlans);

struct ParetoPoint {
  Plan plan;
  int64_t bytes = 0;
  bool optimal = false;
};

// Returns plans that no other plan found beats in both time and memory, in ascending order of time.
// It calls SearchWithin at `points` limits, from the need of the fastest plan down to that of the
// smallest.
Result<std::vector<ParetoPoint>> TimeMemoryFrontier(const SearchProblem& problem, int points,
                                                    const SearchOptions& options = {});

}  // namespace ucudnn::planner
