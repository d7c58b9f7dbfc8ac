#include "planner/search/reduction.h"

#include <algorithm>

#include "planner/search/dual_ascent.h"

namespace ucudnn::planner {
namespace {

constexpr int kRounds = 8;  // maximum number of rounds, each of one ascent and one removal
constexpr int kPasses = 5;  // passes between two checks of the bound
constexpr int kLooks = 40;  // maximum number of checks in one round

// Returns the configurations that an assignment with a total of at most `most_ms` may have, with a
// margin of 1e-9 for rounding.
Kept Within(const DualAscent::Bound& bound, const Kept& kept, double most_ms) {
  Kept left;
  for (size_t layer = 0; layer < kept.size(); ++layer) {
    const std::vector<double>& reduced = bound.reduced_ms[layer];
    left.emplace_back();
    for (size_t at = 0; at < reduced.size(); ++at) {
      if (!(bound.ms + reduced[at] > most_ms * (1 + 1e-9))) left.back().push_back(kept[layer][at]);
    }
  }
  return left;
}

size_t Size(const Kept& kept) {
  size_t size = 0;
  for (const std::vector<int>& choices : kept) size += choices.size();
  return size;
}

}  // namespace

bool Meets(double bound, double total) { return bound >= total * (1 - 1e-9); }

Reduction Reduce(const SearchProblem& problem,
                 const std::function<double(const Assignment&)>& bound, double most_operations) {
  Reduction result;
  result.kept = KeepAll(problem);
  result.problem = Restricted(problem, result.kept);
  double operations = 0;
  double most_ms = bound(Assignment(problem.layers.size(), 0));
  for (int round = 0; round < kRounds; ++round) {
    DualAscent dual(result.problem, 2 * most_ms);
    DualAscent::Bound best;
    for (int look = 0; look < kLooks; ++look) {
      dual.Ascend(kPasses);
      operations += 2 * kPasses * dual.entries();
      most_ms = bound(Unrestricted(result.kept, dual.Decode()));
      DualAscent::Bound now = dual.LowerBound();
      const double raised = now.ms - best.ms;
      if (look == 0 || raised > 0) best = std::move(now);
      if (Meets(best.ms, most_ms)) break;
      if (look > 0 && !(raised > 0.02 * (most_ms - best.ms))) break;
      if (operations > most_operations) break;
    }
    result.lower_bound_ms = std::max(result.lower_bound_ms, best.ms);
    result.proved = Meets(result.lower_bound_ms, most_ms);
    if (result.proved) return result;
    Kept kept = Within(best, result.kept, most_ms);
    const bool removed = Size(kept) < Size(result.kept);
    if (removed) {
      result.kept = std::move(kept);
      result.problem = Restricted(problem, result.kept);
    }
    if (!removed || operations > most_operations) break;
    if (OrderElimination(result.problem).operations < operations) break;
  }
  result.order = CheapestElimination(result.problem, most_operations);
  return result;
}

}  // namespace ucudnn::planner
