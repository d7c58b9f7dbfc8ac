// Finds the assignment of least cost, with or without a limit on memory. Proves that no other
// assignment costs less, as far as the limits on work permit. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "planner/search/elimination_order.h"
#include "planner/search/problem.h"

namespace ucudnn::planner {

struct SearchOptions {
  int plans = 1;           // how many of the best plans are returned
  bool marginals = false;  // also fill SearchResult::best_total_ms
  // Limits of an elimination. Its cost is predicted before it runs; if the cost exceeds the limits,
  // only a lower bound is computed.
  double most_entries = 1 << 27;  // entries of 8 bytes, summed over all tables
  double most_operations = 2e10;
};

// Returns whether the options allow an elimination.
bool Fits(const EliminationOrder& order, const SearchOptions& options);

struct Plan {
  Assignment assignment;
  double total_ms = 0;  // equation 1, computed from the problem's own costs

  bool operator==(const Plan&) const = default;
};

struct SearchResult {
  std::vector<Plan> plans;  // in ascending order of total; fewer than asked if there are no more
  // No assignment has a lower total. If `optimal`, this equals plans[0].total_ms but for rounding.
  double lower_bound_ms = 0;
  bool optimal = false;
  // best_total_ms[v][c] is the total of the best plan with layer v in configuration c. Empty if
  // SearchOptions::marginals is not set, or if an elimination of the whole problem would exceed the
  // limits of the options.
  std::vector<std::vector<double>> best_total_ms;
};

// Finds the plans of least total by equation 1. If an elimination of the whole problem is cheap, it
// gives the result. Otherwise DualAscent gives a lower bound. If no known plan reaches the bound,
// the part of the problem that Reduce() leaves is eliminated, within the limits of the options.
// Fails if Check() refuses the problem. If the result is not `optimal`, it has one plan, which no
// change of one layer improves.
Result<SearchResult> Search(const SearchProblem& problem, const SearchOptions& options = {});

// Searches as Search() does, but uses DualAscent even if an elimination of the whole problem is
// cheap, and computes no marginals.
Result<SearchResult> SearchByDual(const SearchProblem& problem, const SearchOptions& options = {});

// Returns for each configuration of `layer` the total of the best plan with that configuration;
// none if no search proves it. Computes marginals, or makes one search for each configuration,
// whichever is predicted to be faster. The searches share the operations that `options` allow.
// Fails if Search() fails.
Result<std::vector<std::optional<double>>> BestTotals(const SearchProblem& problem, int layer,
                                                      SearchOptions options = {});

struct LimitedResult {
  Plan plan;
  int64_t bytes = 0;          // TotalBytes() of the plan
  double lower_bound_ms = 0;  // no plan within the limit is faster
  bool optimal = false;
};

constexpr int kMostPlans = 20'000;

// Finds the fastest plan whose TotalBytes() is at most `limit_bytes`. The priced cost of a plan is
// its time plus a price for each of its bytes. First minimises the priced cost at several prices,
// to find the price with the largest lower bound. Then lists plans in ascending order of priced
// cost until the bound reaches the best plan that fits, or until `most_plans` were listed. Lists no
// plans if that would exceed the limits of `options`. Fails if Search() fails, or if even the
// smallest plan exceeds the limit; the error gives the bytes of that plan.
Result<LimitedResult> SearchWithin(const SearchProblem& problem, int64_t limit_bytes,
                                   const SearchOptions& options = {}, int most_plans = kMostPlans);

struct ParetoPoint {
  Plan plan;
  int64_t bytes = 0;
  bool optimal = false;
};

// Returns plans in ascending order of time. No returned plan is both faster and smaller than
// another. Calls SearchWithin at up to `points` limits, from the bytes of the fastest plan down to
// the bytes of the smallest plan.
Result<std::vector<ParetoPoint>> TimeMemoryFrontier(const SearchProblem& problem, int points,
                                                    const SearchOptions& options = {});

}  // namespace ucudnn::planner
