#include "planner/search/elimination_order.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <tuple>
#include <utility>

namespace ucudnn::planner {
namespace {

constexpr size_t kRandomOrders = 100;
// An elimination of this many operations takes about as long as the search for a better order.
constexpr double kCheap = 1e8;
// Random orders are assumed to reduce the number of operations by at most this factor.
constexpr double kLuck = 1e4;
constexpr double kNoises[] = {4, 8, 30};  // the largest random factors on `fill`; the smallest is 1

using Neighbours = std::vector<std::set<int>>;

// The price of eliminating one layer next; smaller is better.
struct Weight {
  double fill = 0;
  double entries = 1;
};

Weight WeightOf(const SearchProblem& problem, const Neighbours& adjacent, int layer) {
  Weight weight;
  const std::set<int>& around = adjacent[static_cast<size_t>(layer)];
  for (const int a : around) {
    weight.entries *= problem.Configurations(a);
    const std::set<int>& joined = adjacent[static_cast<size_t>(a)];
    for (auto b = around.upper_bound(a); b != around.end(); ++b) {
      if (joined.count(*b) == 0) {
        weight.fill += static_cast<double>(problem.Configurations(a)) * problem.Configurations(*b);
      }
    }
  }
  return weight;
}

struct Chance {
  std::mt19937 random = std::mt19937(1);
  double noise = 1;
};

// Orders by weighted min-fill. `chance`, if given, multiplies the fills by random factors. Stops
// beyond `most_operations`, with an incomplete order.
EliminationOrder Order(const SearchProblem& problem, double most_operations, Chance* chance) {
  const auto count = static_cast<int>(problem.layers.size());
  EliminationOrder order;
  Neighbours adjacent(problem.layers.size());
  for (const auto& edge : problem.edges) {
    adjacent[static_cast<size_t>(edge.from)].insert(edge.to);
    adjacent[static_cast<size_t>(edge.to)].insert(edge.from);
  }
  const auto weigh = [&](int layer) {
    Weight weight = WeightOf(problem, adjacent, layer);
    if (chance == nullptr) return weight;
    const double share = static_cast<double>(chance->random()) / 0x1p32;
    weight.fill = (weight.fill + 1) * std::pow(chance->noise, share);
    return weight;
  };
  std::vector<Weight> weights;
  for (int layer = 0; layer < count; ++layer) weights.push_back(weigh(layer));
  std::set<std::tuple<double, double, int>> left;  // by fill and entries
  const auto place = [&](int layer) {
    const Weight& weight = weights[static_cast<size_t>(layer)];
    return std::tuple(weight.fill, weight.entries, layer);
  };
  for (int layer = 0; layer < count; ++layer) left.insert(place(layer));
  while (!left.empty() && order.operations <= most_operations) {
    const int next = std::get<int>(*left.begin());
    const std::set<int> around = adjacent[static_cast<size_t>(next)];
    const double entries = weights[static_cast<size_t>(next)].entries;
    order.layers.push_back(next);
    order.entries += entries;
    order.operations += entries * problem.Configurations(next);
    left.erase(left.begin());
    for (const int neighbour : around) adjacent[static_cast<size_t>(neighbour)].erase(next);
    for (const int a : around) {
      for (const int b : around) {
        if (a != b) adjacent[static_cast<size_t>(a)].insert(b);
      }
    }
    std::set<int> touched = around;  // `around`, and all layers whose weight may have changed
    for (const int neighbour : around) {
      touched.insert(adjacent[static_cast<size_t>(neighbour)].begin(),
                     adjacent[static_cast<size_t>(neighbour)].end());
    }
    for (const int layer : touched) {
      left.erase(place(layer));
      weights[static_cast<size_t>(layer)] = weigh(layer);
      left.insert(place(layer));
    }
  }
  return order;
}

}  // namespace

EliminationOrder OrderElimination(const SearchProblem& problem) {
  return Order(problem, std::numeric_limits<double>::infinity(), nullptr);
}

EliminationOrder CheapestElimination(const SearchProblem& problem, double most_operations) {
  EliminationOrder cheapest = OrderElimination(problem);
  if (cheapest.operations <= kCheap || cheapest.operations > kLuck * most_operations) {
    return cheapest;
  }
  Chance chance;
  for (size_t number = 0; number < kRandomOrders; ++number) {
    chance.noise = kNoises[number % std::size(kNoises)];
    EliminationOrder order = Order(problem, cheapest.operations, &chance);
    if (order.layers.size() == problem.layers.size() && order.operations < cheapest.operations) {
      cheapest = std::move(order);
    }
  }
  return cheapest;
}

}  // namespace ucudnn::planner
