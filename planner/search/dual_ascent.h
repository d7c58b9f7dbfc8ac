// Dual block-coordinate ascent on equation 1's linear relaxation: sequential tree-reweighted
// message passing (TRW-S). Messages move costs between layers and edges without changing any total.
// The minima of all layers and edges then add up to a lower bound, which passes raise. Source:
// Kolmogorov, "Convergent tree-reweighted message passing for energy minimization" (PAMI 2006), the
// sequential algorithm on monotonic chains. Thread-compatible.
#pragma once

#include <vector>

#include "planner/search/problem.h"

namespace ucudnn::planner {

class DualAscent {
 public:
  // Costs above `most_ms` count as `most_ms`. Totals of at most `most_ms` stay the same; none
  // rises.
  DualAscent(const SearchProblem& problem, double most_ms);

  // Passes over the layers forward and backward, `times` times.
  void Ascend(int times);
  // Returns the number of entries of the edges' tables; a pass visits each once.
  double entries() const { return entries_; }

  struct Bound {
    // No assignment takes less, whatever the rounding of the sums that led to this bound.
    double ms = 0;
    // By layer and configuration: no assignment with this configuration takes less than `ms` plus
    // this.
    std::vector<std::vector<double>> reduced_ms;
  };
  Bound LowerBound() const;

  // Chooses for one layer after the other the configuration that is cheapest given the earlier
  // choices; the messages estimate the cost of the later layers.
  Assignment Decode() const;

 private:
  struct Edge {
    int from = 0;
    int to = 0;
    std::vector<double> ms;         // [configuration of from][configuration of to]
    std::vector<double> from_gets;  // what has been moved to `from`, by its configuration
    std::vector<double> to_gets;
  };
  struct Layer {
    std::vector<double> ms;
    std::vector<int> before;  // edges that end here
    std::vector<int> behind;  // edges that begin here
    // The share of a layer's cost that each of its edges in a pass's direction takes along. Each
    // layer is on as many monotonic chains as it has edges on the side with more edges.
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
