#include "planner/search/search.h"

#include <algorithm>
#include <utility>

#include "planner/search/bucket_tree.h"
#include "planner/search/k_best.h"
#include "planner/search/known_plans.h"
#include "planner/search/reduction.h"

namespace ucudnn::planner {
namespace {

// An elimination of at most so many operations is sooner done than the ascent's first passes.
constexpr double kFewOperations = 1e6;
constexpr double kFewPasses = 20;

double TableEntries(const SearchProblem& problem) {
  double entries = 0;
  for (const auto& edge : problem.edges) entries += static_cast<double>(edge.ms.size());
  return entries;
}

void SearchExactly(const SearchProblem& problem, const EliminationOrder& order,
                   const SearchOptions& options, SearchResult& result) {
  const BucketTree tree(problem, order.layers);
  result.lower_bound_ms = tree.LeastMs();
  if (options.plans == 1) {
    result.plans.push_back({tree.Decode(), 0});
  } else {
    KBest best(tree);
    for (int plan = 0; plan < options.plans; ++plan) {
      auto next = best.Next();
      if (!next) break;
      result.plans.push_back({std::move(*next), 0});
    }
  }
  if (options.marginals) result.best_total_ms = tree.MinMarginals();
  result.optimal = true;
}

void SearchByDual(const SearchProblem& problem, SearchOptions options, SearchResult& result) {
  options.marginals = false;
  KnownPlans known(problem, options.plans);
  const Reduction left = Reduce(
      problem,
      [&](const Assignment& assignment) {
        known.Offer(assignment);
        return known.MostMs();
      },
      options.most_operations);
  if (left.proved) {
    for (const auto& plan : known.plans()) result.plans.push_back({plan.second, 0});
    result.lower_bound_ms = std::min(left.lower_bound_ms, known.plans().begin()->first);
    result.optimal = true;
  } else if (Fits(left.order, options)) {
    SearchExactly(left.problem, left.order, options, result);
    for (Plan& plan : result.plans) plan.assignment = Unrestricted(left.kept, plan.assignment);
  } else {
    result.plans.push_back({known.plans().begin()->second, 0});
    result.lower_bound_ms = std::min(left.lower_bound_ms, known.plans().begin()->first);
  }
}

}  // namespace

bool Fits(const EliminationOrder& order, const SearchOptions& options) {
  return order.entries <= options.most_entries && order.operations <= options.most_operations;
}

Result<SearchResult> Search(const SearchProblem& problem, const SearchOptions& options) {
  UCUDNN_RETURN_IF_ERROR(Check(problem));
  if (options.plans < 1) {
    return Status::Error(std::to_string(options.plans) + " plans; expected 1 or more");
  }
  SearchResult result;
  EliminationOrder order = OrderElimination(problem);
  const double few = std::max(kFewOperations, kFewPasses * TableEntries(problem));
  if (options.marginals && order.operations > few) order = CheapestElimination(problem);
  if (Fits(order, options) && (options.marginals || order.operations <= few)) {
    SearchExactly(problem, order, options, result);
  } else {
    SearchByDual(problem, options, result);
  }
  for (Plan& plan : result.plans) plan.total_ms = TotalMs(problem, plan.assignment);
  const double total = result.plans.front().total_ms;
  if (!Meets(total, result.lower_bound_ms) ||
      (result.optimal && !Meets(result.lower_bound_ms, total))) {
    return Status::Error("the plan takes " + std::to_string(total) + " ms, the search found " +
                         std::to_string(result.lower_bound_ms));
  }
  result.optimal = result.optimal || (options.plans == 1 && Meets(result.lower_bound_ms, total));
  return result;
}

}  // namespace ucudnn::planner
