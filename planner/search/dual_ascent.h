// Dual block-coordinate ascent on equation 1's linear relaxation: sequential tree-reweighted
// message passing (TRW-S). Messages move costs between layers and edges without changing the total
// of any assignment. Therefore the sum of the least costs of all layers and edges is a lower bound,
// which every pass raises or keeps. Source: Kolmogorov, "Convergent tree-reweighted message passing
// for energy minimization" (PAMI 2006), the sequential algorithm on monotonic chains.
// Thread-compatible.
#pragma once

#include <vector>

#include "planner/search/problem.h"

namespace ucudnn::planner {

class DualAscent {
 public:
  // Costs above `most_ms` count as `most_ms`. So totals of at most `most_ms` do not change, and
  // larger totals do not rise.
  DualAscent(const SearchProblem& problem, double most_ms);

  // Makes `times` passes over the layers, each forward and then backward.
  void Ascend(int times);
  // Returns the number of entries of all edges' tables. One direction of a pass visits each entry
  // once.
  double entries() const { return entries_; }

  struct Bound {
    // No assignment has a total below `ms`. A bound of all rounding errors is already subtracted.
    double ms = 0;
    // By layer and configuration: no assignment with this configuration has a total below `ms` plus
    // this value.
    std::vector<std::vector<double>> reduced_ms;
  };
  Bound LowerBound() const;

  // Chooses for one layer after the other the configuration that is cheapest given the earlier
  // choices. The messages from later layers estimate those layers' cost.
  Assignment Decode() const;

 private:
  struct Edge {
    int from = 0;
    int to = 0;
    std::vector<double> ms;  // [configuration of from][configuration of to]
    // The costs that messages have moved to `from`, by configuration of `from`, and to `to`, by
    // configuration of `to`.
    std::vector<double> from_gets;
    std::vector<double> to_gets;
  };
  struct Layer {
    std::vector<double> ms;
    std::vector<int> before;  // edges that end here
    std::vector<int> behind;  // edges that begin here
    // A pass moves this share of the layer's cost to each edge that it visits next. The share is 1
    // / n, where n is the number of monotonic chains through the layer: the size of `before` or of
    // `behind`, whichever is larger.
    double share = 1;
  };

  std::vector<double> Reparametrised(const Layer& layer) const;
  void Forward(const Layer& layer);
  void Backward(const Layer& layer);

  std::vector<Layer> layers_;
  std::vector<Edge> edges_;  // one for each pair of layers
  double entries_ = 0;
};

}  // namespace ucudnn::planner
