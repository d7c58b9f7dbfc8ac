#include "planner/search/search.h"

#include <algorithm>
#include <utility>

#include "planner/search/bucket_tree.h"
#include "planner/search/k_best.h"
#include "planner/search/known_plans.h"
#include "planner/search/reduction.h"

namespace ucudnn::planner {
namespace {

// SearchByDual visits each entry of the edges' tables about kFewPasses times. An elimination is at
// least as fast if it has no more operations than there are such visits, or at most kFewOperations.
constexpr double kFewOperations = 1e6;
constexpr double kFewPasses = 60;
// An elimination that also computes marginals takes as long as this many eliminations without them.
constexpr double kMarginals = 4;

double FewOperations(const SearchProblem& problem) {
  double entries = 0;
  for (const auto& edge : problem.edges) entries += static_cast<double>(edge.ms.size());
  return std::max(kFewOperations, kFewPasses * entries);
}

SearchResult SearchExactly(const SearchProblem& problem, const EliminationOrder& order,
                           const SearchOptions& options) {
  SearchResult result;
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
  return result;
}

Status Check(const SearchProblem& problem, const SearchOptions& options) {
  UCUDNN_RETURN_IF_ERROR(planner::Check(problem));
  if (options.plans >= 1) return Status::Ok();
  return Status::Error(std::to_string(options.plans) + " plans; expected 1 or more");
}

// Replaces the totals by TotalMs(), and checks that these agree with lower_bound_ms and `optimal`.
Result<SearchResult> Checked(const SearchProblem& problem, SearchResult result) {
  for (Plan& plan : result.plans) plan.total_ms = TotalMs(problem, plan.assignment);
  const double total = result.plans.front().total_ms;
  if (!Meets(total, result.lower_bound_ms) ||
      (result.optimal && !Meets(result.lower_bound_ms, total))) {
    return Status::Error("the plan takes " + std::to_string(total) + " ms, the search found " +
                         std::to_string(result.lower_bound_ms));
  }
  return result;
}

}  // namespace

bool Fits(const EliminationOrder& order, const SearchOptions& options) {
  return order.entries <= options.most_entries && order.operations <= options.most_operations;
}

Result<SearchResult> Search(const SearchProblem& problem, const SearchOptions& options) {
  UCUDNN_RETURN_IF_ERROR(Check(problem, options));
  const EliminationOrder order = OrderElimination(problem);
  if (Fits(order, options) && order.operations <= FewOperations(problem)) {
    return Checked(problem, SearchExactly(problem, order, options));
  }
  UCUDNN_ASSIGN_OR_RETURN(SearchResult result, SearchByDual(problem, options));
  if (options.marginals) {
    EliminationOrder all = CheapestElimination(problem, options.most_operations);
    all.operations *= kMarginals;
    if (Fits(all, options)) result.best_total_ms = BucketTree(problem, all.layers).MinMarginals();
  }
  return result;
}

Result<SearchResult> SearchByDual(const SearchProblem& problem, const SearchOptions& options) {
  UCUDNN_RETURN_IF_ERROR(Check(problem, options));
  KnownPlans known(problem, options.plans);
  const Reduction left = Reduce(
      problem,
      [&](const Assignment& assignment) {
        known.Offer(assignment);
        return known.MostMs();
      },
      options.most_operations);
  SearchResult result;
  if (!left.proved && Fits(left.order, options)) {
    result = SearchExactly(left.problem, left.order, {.plans = options.plans});
    for (Plan& plan : result.plans) plan.assignment = Unrestricted(left.kept, plan.assignment);
  } else {
    for (const auto& plan : known.plans()) result.plans.push_back({plan.second, 0});
    if (!left.proved) result.plans.resize(1);
    result.lower_bound_ms = std::min(left.lower_bound_ms, known.plans().begin()->first);
    result.optimal = left.proved;
  }
  return Checked(problem, std::move(result));
}

Result<std::vector<std::optional<double>>> BestTotals(const SearchProblem& problem, int layer,
                                                      SearchOptions options) {
  UCUDNN_RETURN_IF_ERROR(Check(problem, options));
  const auto configurations = static_cast<double>(problem.Configurations(layer));
  EliminationOrder order = OrderElimination(problem);
  order.operations *= kMarginals;
  if (Fits(order, options) && order.operations <= configurations * FewOperations(problem)) {
    const auto all = BucketTree(problem, order.layers).MinMarginals();
    const std::vector<double>& best = all[static_cast<size_t>(layer)];
    return std::vector<std::optional<double>>(best.begin(), best.end());
  }
  options.plans = 1;
  options.marginals = false;
  options.most_operations /= configurations;
  std::vector<std::optional<double>> totals;
  Kept kept = KeepAll(problem);
  for (int choice = 0; choice < problem.Configurations(layer); ++choice) {
    kept[static_cast<size_t>(layer)] = {choice};
    UCUDNN_ASSIGN_OR_RETURN(const SearchResult found, Search(Restricted(problem, kept), options));
    totals.emplace_back();
    if (found.optimal) totals.back() = found.plans.front().total_ms;
  }
  return totals;
}

}  // namespace ucudnn::planner
