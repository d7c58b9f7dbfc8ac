#include "planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/search/bucket_tree.h"
#include "planner/search/k_best.h"

namespace ucudnn::planner {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr int kMostConditioned = 2;

bool Fits(const EliminationOrder& order, double times, const SearchOptions& options) {
  return order.entries <= options.most_entries &&
         order.operations * times <= options.most_operations;
}

// The problem's graph without its costs: what predicting an elimination looks at.
SearchProblem Outline(SearchProblem problem) {
  for (auto& edge : problem.edges) edge.ms.clear();
  for (auto& edge : problem.edges) edge.bytes.clear();
  return problem;
}

// Layers to condition on so that what is left fits; empty: none found.
std::vector<int> ChooseConditioned(const SearchProblem& problem, const SearchOptions& options) {
  std::vector<int> chosen;
  SearchProblem outline = Outline(problem);
  double times = 1;
  while (static_cast<int>(chosen.size()) < kMostConditioned) {
    int best = -1;
    EliminationOrder least;
    for (int layer = 0; layer < static_cast<int>(problem.layers.size()); ++layer) {
      if (outline.Configurations(layer) == 1) continue;
      EliminationOrder order = OrderElimination(Restricted(outline, layer, 0));
      if (best < 0 || order.operations * problem.Configurations(layer) <
                          least.operations * problem.Configurations(best)) {
        best = layer;
        least = std::move(order);
      }
    }
    if (best < 0) return {};
    chosen.push_back(best);
    outline = Restricted(std::move(outline), best, 0);
    times *= problem.Configurations(best);
    if (Fits(least, times, options)) return chosen;
  }
  return {};
}

void Improve(const SearchProblem& problem, Assignment& assignment) {
  double total = TotalMs(problem, assignment);
  for (bool improved = true; improved;) {
    improved = false;
    for (size_t layer = 0; layer < assignment.size(); ++layer) {
      const int before = assignment[layer];
      int best = before;
      for (int choice = 0; choice < problem.Configurations(static_cast<int>(layer)); ++choice) {
        assignment[layer] = choice;
        const double changed = TotalMs(problem, assignment);
        if (changed < total * (1 - 1e-12)) {
          total = changed;
          best = choice;
        }
      }
      assignment[layer] = best;
      improved = improved || best != before;
    }
  }
}

void SearchExactly(const SearchProblem& problem, const SearchOptions& options,
                   SearchResult& result) {
  const BucketTree tree(problem, result.elimination, kUnbounded);
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

// Keeps the better of what is known and of what was found with `layer` held to `configuration`.
void Merge(const SearchResult& part, int layer, int configuration, const SearchOptions& options,
           SearchResult& whole) {
  for (Plan plan : part.plans) {
    plan.assignment[static_cast<size_t>(layer)] = configuration;
    whole.plans.push_back(std::move(plan));
  }
  std::stable_sort(whole.plans.begin(), whole.plans.end(),
                   [](const Plan& a, const Plan& b) { return a.total_ms < b.total_ms; });
  if (static_cast<int>(whole.plans.size()) > options.plans) {
    whole.plans.resize(static_cast<size_t>(options.plans));
  }
  whole.lower_bound_ms = std::min(whole.lower_bound_ms, part.lower_bound_ms);
  for (size_t other = 0; other < part.best_total_ms.size(); ++other) {
    std::vector<double>& best = whole.best_total_ms[other];
    const std::vector<double>& found = part.best_total_ms[other];
    if (static_cast<int>(other) == layer) {
      best[static_cast<size_t>(configuration)] = found.front();
    } else {
      std::transform(best.begin(), best.end(), found.begin(), best.begin(),
                     [](double a, double b) { return std::min(a, b); });
    }
  }
}

Result<SearchResult> SearchConditioned(const SearchProblem& problem, std::vector<int> layers,
                                       const SearchOptions& options) {
  SearchResult result;
  if (layers.empty()) {
    result.elimination = OrderElimination(problem);
    SearchExactly(problem, options, result);
    for (Plan& plan : result.plans) plan.total_ms = TotalMs(problem, plan.assignment);
    return result;
  }
  const int layer = layers.back();
  layers.pop_back();
  result.lower_bound_ms = kUnbounded;
  if (options.marginals) {
    for (const auto& other : problem.layers) {
      result.best_total_ms.emplace_back(other.ms.size(), kUnbounded);
    }
  }
  for (int choice = 0; choice < problem.Configurations(layer); ++choice) {
    UCUDNN_ASSIGN_OR_RETURN(const SearchResult part,
                            SearchConditioned(Restricted(problem, layer, choice), layers, options));
    Merge(part, layer, choice, options, result);
    result.elimination = part.elimination;
  }
  result.optimal = true;
  return result;
}

}  // namespace

Result<SearchResult> Search(const SearchProblem& problem, const SearchOptions& options) {
  UCUDNN_RETURN_IF_ERROR(Check(problem));
  if (options.plans < 1) {
    return Status::Error(std::to_string(options.plans) + " plans; expected 1 or more");
  }
  SearchResult result;
  result.elimination = OrderElimination(problem);
  if (Fits(result.elimination, 1, options)) {
    SearchExactly(problem, options, result);
  } else if (const std::vector<int> layers = ChooseConditioned(problem, options); !layers.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(result, SearchConditioned(problem, layers, options));
    result.conditioned = layers;
  } else {
    const BucketTree tree(problem, result.elimination, options.most_entries_of_bound);
    result.lower_bound_ms = tree.LeastMs();
    result.optimal = tree.exact();
    result.plans.push_back({tree.Decode(), 0});
    if (!tree.exact()) Improve(problem, result.plans.front().assignment);
  }
  for (Plan& plan : result.plans) plan.total_ms = TotalMs(problem, plan.assignment);
  const double total = result.plans.front().total_ms;
  const double rounding = 1e-9 * std::max(1.0, total);
  if (total < result.lower_bound_ms - rounding ||
      (result.optimal && total > result.lower_bound_ms + rounding)) {
    return Status::Error("the plan takes " + std::to_string(total) + " ms, the search found " +
                         std::to_string(result.lower_bound_ms));
  }
  result.optimal = result.optimal || total <= result.lower_bound_ms + rounding;
  return result;
}

}  // namespace ucudnn::planner
