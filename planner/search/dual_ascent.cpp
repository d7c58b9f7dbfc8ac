#include "planner/search/dual_ascent.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

namespace ucudnn::planner {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();
constexpr double kLargest = 1e290;  // costs are cut to this, so that sums stay finite
constexpr size_t kLanes = 8;

double Least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double LargestMagnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Returns the minimum over i of a[i] + b[i]. Several minima side by side (lanes) let the compiler
// use vectors.
double LeastSum(const double* a, const double* b, size_t count) {
  double lanes[kLanes];
  std::fill(lanes, lanes + kLanes, kUnreached);
  size_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double sum = a[at + lane] + b[at + lane];
      lanes[lane] = sum < lanes[lane] ? sum : lanes[lane];
    }
  }
  double least = *std::min_element(lanes, lanes + kLanes);
  for (; at < count; ++at) least = std::min(least, a[at] + b[at]);
  return least;
}

// Subtracts the least value from all values. This changes no result, and keeps messages as small as
// the costs.
void PutLeastAtZero(std::vector<double>& message) {
  const double least = Least(message);
  for (double& value : message) value -= least;
}

}  // namespace

DualAscent::DualAscent(const SearchProblem& problem, double most_ms) {
  const auto cut = [most = std::min(most_ms, kLargest)](std::vector<double>& costs) {
    for (double& cost : costs) cost = std::min(cost, most);
  };
  for (const auto& layer : problem.layers) {
    layers_.emplace_back();
    layers_.back().ms = layer.ms;
    cut(layers_.back().ms);
  }
  std::map<std::pair<int, int>, size_t> known;
  for (const auto& edge : problem.edges) {
    const auto [found, added] = known.try_emplace({edge.from, edge.to}, edges_.size());
    if (added) {
      edges_.push_back({edge.from, edge.to, edge.ms, {}, {}});
    } else {
      std::vector<double>& sum = edges_[found->second].ms;
      std::transform(sum.begin(), sum.end(), edge.ms.begin(), sum.begin(), std::plus<>());
    }
  }
  for (size_t at = 0; at < edges_.size(); ++at) {
    Edge& edge = edges_[at];
    Layer& from = layers_[static_cast<size_t>(edge.from)];
    Layer& to = layers_[static_cast<size_t>(edge.to)];
    cut(edge.ms);
    edge.from_gets.assign(from.ms.size(), 0);
    edge.to_gets.assign(to.ms.size(), 0);
    from.behind.push_back(static_cast<int>(at));
    to.before.push_back(static_cast<int>(at));
    entries_ += static_cast<double>(edge.ms.size());
  }
  for (Layer& layer : layers_) {
    const size_t chains = std::max(layer.before.size(), layer.behind.size());
    layer.share = 1 / static_cast<double>(std::max<size_t>(1, chains));
  }
}

// Returns a layer's costs plus all costs that its edges have moved to it.
std::vector<double> DualAscent::Reparametrised(const Layer& layer) const {
  std::vector<double> costs = layer.ms;
  const auto add = [&](const std::vector<double>& message) {
    std::transform(costs.begin(), costs.end(), message.begin(), costs.begin(), std::plus<>());
  };
  for (const int edge : layer.before) add(edges_[static_cast<size_t>(edge)].to_gets);
  for (const int edge : layer.behind) add(edges_[static_cast<size_t>(edge)].from_gets);
  return costs;
}

void DualAscent::Forward(const Layer& layer) {
  if (layer.behind.empty()) return;
  const std::vector<double> costs = Reparametrised(layer);
  for (const int at : layer.behind) {
    Edge& edge = edges_[static_cast<size_t>(at)];
    const size_t columns = edge.to_gets.size();
    std::fill(edge.to_gets.begin(), edge.to_gets.end(), kUnreached);
    double* const out = edge.to_gets.data();
    for (size_t row = 0; row < costs.size(); ++row) {
      const double base = layer.share * costs[row] - edge.from_gets[row];
      const double* const ms = edge.ms.data() + row * columns;
      for (size_t column = 0; column < columns; ++column) {
        const double sum = base + ms[column];
        out[column] = sum < out[column] ? sum : out[column];
      }
    }
    PutLeastAtZero(edge.to_gets);
  }
}

void DualAscent::Backward(const Layer& layer) {
  if (layer.before.empty()) return;
  const std::vector<double> costs = Reparametrised(layer);
  std::vector<double> base(costs.size());
  for (const int at : layer.before) {
    Edge& edge = edges_[static_cast<size_t>(at)];
    for (size_t column = 0; column < base.size(); ++column) {
      base[column] = layer.share * costs[column] - edge.to_gets[column];
    }
    for (size_t row = 0; row < edge.from_gets.size(); ++row) {
      edge.from_gets[row] = LeastSum(base.data(), edge.ms.data() + row * base.size(), base.size());
    }
    PutLeastAtZero(edge.from_gets);
  }
}

void DualAscent::Ascend(int times) {
  for (int time = 0; time < times; ++time) {
    for (const Layer& layer : layers_) Forward(layer);
    for (size_t at = layers_.size(); at-- > 0;) Backward(layers_[at]);
  }
}

// Computes the bound from the messages that a backward pass leaves. Of each layer's costs, each
// edge that ends at the layer gets the part layer.share, and the rest stays with the layer.
DualAscent::Bound DualAscent::LowerBound() const {
  // `rounding` becomes a bound of the rounding errors of all operations below and of the messages.
  // An operation on numbers of some magnitude has an error of at most kRound times that magnitude.
  // Edges count with their largest magnitudes, so that `rounding` also bounds the error of each
  // entry of reduced_ms.
  constexpr double kRound = std::numeric_limits<double>::epsilon();
  double rounding = 0;
  double sum = 0;
  const auto add = [&](double term) {
    sum += term;
    rounding += kRound * std::abs(sum);
  };
  Bound bound;
  std::vector<std::vector<double>> costs;
  // By layer: the sum of the largest magnitudes of the terms that make up the layer's costs.
  std::vector<double> magnitudes;
  for (const Layer& layer : layers_) {
    costs.push_back(Reparametrised(layer));
    double magnitude = LargestMagnitude(layer.ms);
    for (const int edge : layer.before) {
      magnitude += LargestMagnitude(edges_[static_cast<size_t>(edge)].to_gets);
    }
    for (const int edge : layer.behind) {
      magnitude += LargestMagnitude(edges_[static_cast<size_t>(edge)].from_gets);
    }
    magnitudes.push_back(magnitude);
    const auto edges = static_cast<double>(layer.before.size());
    const double kept = 1 - layer.share * edges;
    const double least = Least(costs.back());
    add(kept * least);
    // Counts the additions of each sum, the product with `kept`, and the rounding of shares that
    // should add up to 1.
    rounding += kRound * magnitude * (6 + edges + static_cast<double>(layer.behind.size()));
    bound.reduced_ms.emplace_back();
    for (const double cost : costs.back()) {
      bound.reduced_ms.back().push_back(kept * (cost - least));
    }
  }
  for (const Edge& edge : edges_) {
    const auto to = static_cast<size_t>(edge.to);
    const size_t columns = edge.to_gets.size();
    std::vector<double> base(columns);
    for (size_t column = 0; column < columns; ++column) {
      base[column] = layers_[to].share * costs[to][column] - edge.to_gets[column];
    }
    std::vector<double> by_row(edge.from_gets.size());
    std::vector<double> by_column(columns, kUnreached);
    for (size_t row = 0; row < by_row.size(); ++row) {
      const double* const ms = edge.ms.data() + row * columns;
      const double moved = edge.from_gets[row];
      by_row[row] = LeastSum(base.data(), ms, columns) - moved;
      for (size_t column = 0; column < columns; ++column) {
        const double cost = base[column] + ms[column] - moved;
        by_column[column] = cost < by_column[column] ? cost : by_column[column];
      }
    }
    const double least = Least(by_column);
    add(least);
    rounding += 4 * kRound *
                (LargestMagnitude(edge.ms) + LargestMagnitude(edge.from_gets) +
                 LargestMagnitude(edge.to_gets) + magnitudes[to]);
    const auto reduce = [&](int layer, const std::vector<double>& with) {
      std::vector<double>& reduced = bound.reduced_ms[static_cast<size_t>(layer)];
      for (size_t at = 0; at < with.size(); ++at) reduced[at] += with[at] - least;
    };
    reduce(edge.from, by_row);
    reduce(edge.to, by_column);
  }
  bound.ms = sum - rounding;
  return bound;
}

Assignment DualAscent::Decode() const {
  Assignment assignment;
  for (const Layer& layer : layers_) {
    std::vector<double> costs = layer.ms;
    for (const int at : layer.before) {
      const Edge& edge = edges_[static_cast<size_t>(at)];
      const auto row = static_cast<size_t>(assignment[static_cast<size_t>(edge.from)]);
      const double* const ms = edge.ms.data() + row * costs.size();
      std::transform(costs.begin(), costs.end(), ms, costs.begin(), std::plus<>());
    }
    for (const int at : layer.behind) {
      const std::vector<double>& message = edges_[static_cast<size_t>(at)].from_gets;
      std::transform(costs.begin(), costs.end(), message.begin(), costs.begin(), std::plus<>());
    }
    assignment.push_back(
        static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin()));
  }
  return assignment;
}

}  // namespace ucudnn::planner
