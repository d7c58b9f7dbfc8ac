#include "planner/search/known_plans.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace ucudnn::planner {

KnownPlans::KnownPlans(const SearchProblem& problem, int most)
    : problem_(problem), most_(static_cast<size_t>(most)), edges_(problem.layers.size()) {
  for (size_t at = 0; at < problem.edges.size(); ++at) {
    edges_[static_cast<size_t>(problem.edges[at].from)].push_back(static_cast<int>(at));
    edges_[static_cast<size_t>(problem.edges[at].to)].push_back(static_cast<int>(at));
  }
}

std::vector<double> KnownPlans::CostsOf(const Assignment& assignment, int layer) const {
  std::vector<double> costs = problem_.layers[static_cast<size_t>(layer)].ms;
  for (const int at : edges_[static_cast<size_t>(layer)]) {
    const auto& edge = problem_.edges[static_cast<size_t>(at)];
    const bool leaves = edge.from == layer;
    const auto columns = static_cast<size_t>(problem_.Configurations(edge.to));
    const auto other =
        static_cast<size_t>(assignment[static_cast<size_t>(leaves ? edge.to : edge.from)]);
    const double* ms = edge.ms.data() + (leaves ? other : other * columns);
    for (double& cost : costs) {
      cost += *ms;
      ms += leaves ? columns : 1;
    }
  }
  return costs;
}

void KnownPlans::Improve(Assignment& assignment) const {
  for (bool improved = true; improved;) {
    improved = false;
    for (size_t layer = 0; layer < assignment.size(); ++layer) {
      const std::vector<double> costs = CostsOf(assignment, static_cast<int>(layer));
      const auto least = std::min_element(costs.begin(), costs.end());
      // Only by more than rounding, so that this ends.
      if (!(*least < costs[static_cast<size_t>(assignment[layer])] * (1 - 1e-12))) continue;
      assignment[layer] = static_cast<int>(least - costs.begin());
      improved = true;
    }
  }
}

bool KnownPlans::Insert(const Assignment& assignment) {
  const double total = TotalMs(problem_, assignment);
  if (!(total < MostMs()) || !plans_.emplace(total, assignment).second) return false;
  if (plans_.size() > most_) plans_.erase(std::prev(plans_.end()));
  return true;
}

void KnownPlans::Offer(Assignment assignment) {
  Improve(assignment);
  if (Insert(assignment) && most_ > 1) Spread(std::move(assignment));
}

// Best first, until no kept assignment has a neighbour that belongs among them.
void KnownPlans::Spread(Assignment best) {
  std::set<std::pair<double, Assignment>> waiting = {{TotalMs(problem_, best), best}};
  while (!waiting.empty()) {
    const auto [total, assignment] = waiting.extract(waiting.begin()).value();
    if (total > MostMs()) return;
    for (size_t layer = 0; layer < assignment.size(); ++layer) {
      const std::vector<double> costs = CostsOf(assignment, static_cast<int>(layer));
      const double now = costs[static_cast<size_t>(assignment[layer])];
      for (size_t choice = 0; choice < costs.size(); ++choice) {
        // As TotalMs has it but for rounding: what is too dear by more need not be summed up.
        if (total + (costs[choice] - now) >= MostMs() * (1 + 1e-9)) continue;
        Assignment changed = assignment;
        changed[layer] = static_cast<int>(choice);
        if (Insert(changed)) waiting.emplace(TotalMs(problem_, changed), std::move(changed));
      }
    }
  }
}

double KnownPlans::MostMs() const {
  return plans_.size() < most_ ? std::numeric_limits<double>::infinity() : plans_.rbegin()->first;
}

}  // namespace ucudnn::planner
