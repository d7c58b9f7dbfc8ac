#include "planner/search/known_plans.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace ucudnn::planner {
namespace {

constexpr int kSpreads = 30;

}  // namespace

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
      // Only gains above rounding count, because otherwise the loop might not end.
      if (!(*least < costs[static_cast<size_t>(assignment[layer])] * (1 - 1e-12))) continue;
      assignment[layer] = static_cast<int>(least - costs.begin());
      improved = true;
    }
  }
}

bool KnownPlans::Insert(const Assignment& assignment) {
  const double total = TotalMs(problem_, assignment);
  if (plans_.size() == most_ && !(total < MostMs())) return false;
  if (!plans_.emplace(total, assignment).second) return false;
  if (plans_.size() > most_) plans_.erase(std::prev(plans_.end()));
  return true;
}

void KnownPlans::Offer(Assignment assignment) {
  Improve(assignment);
  if (Insert(assignment) && most_ > 1) Spread(std::move(assignment));
}

// Inserts assignments that differ in one layer from a known assignment: first from `best`, then
// again and again from the cheapest assignment that was inserted here and from which no others were
// made yet.
void KnownPlans::Spread(Assignment best) {
  struct Change {
    double rise;
    size_t layer;
    int choice;
  };
  std::set<std::pair<double, Assignment>> waiting = {{TotalMs(problem_, best), best}};
  std::vector<Change> changes;
  for (int spread = 0; !waiting.empty() && (spread < kSpreads || plans_.size() < most_); ++spread) {
    const auto [total, assignment] = waiting.extract(waiting.begin()).value();
    changes.clear();
    for (size_t layer = 0; layer < assignment.size(); ++layer) {
      const std::vector<double> costs = CostsOf(assignment, static_cast<int>(layer));
      const double now = costs[static_cast<size_t>(assignment[layer])];
      for (size_t choice = 0; choice < costs.size(); ++choice) {
        const double rise = costs[choice] - now;
        if (static_cast<int>(choice) == assignment[layer] || !(total + rise < MostMs())) continue;
        changes.push_back({rise, layer, static_cast<int>(choice)});
      }
    }
    const size_t count = std::min(changes.size(), most_);
    std::partial_sort(changes.begin(), changes.begin() + static_cast<std::ptrdiff_t>(count),
                      changes.end(),
                      [](const Change& a, const Change& b) { return a.rise < b.rise; });
    for (size_t at = 0; at < count && total + changes[at].rise < MostMs(); ++at) {
      Assignment changed = assignment;
      changed[changes[at].layer] = changes[at].choice;
      if (Insert(changed)) waiting.emplace(total + changes[at].rise, std::move(changed));
    }
  }
}

double KnownPlans::MostMs() const {
  return plans_.size() < most_ ? std::numeric_limits<double>::infinity() : plans_.rbegin()->first;
}

}  // namespace ucudnn::planner
