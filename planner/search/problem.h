// DeePa's equation 1 as numbers: the cost of every configuration of every layer, and for every edge
// the cost of each pair of configurations at its ends. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::planner {

// The cost of a pair of configurations that no plan may have. It is far above the time of any step.
constexpr double kForbiddenMs = 1e9;

struct SearchProblem {
  struct Layer {
    std::string name;
    std::vector<double> ms;  // compute + update, by configuration
    std::vector<int64_t>
        bytes;  // on one device; empty in all layers and edges if memory does not matter
  };
  struct Edge {
    int from = 0;  // positions in `layers`, from < to
    int to = 0;
    std::vector<double> ms;  // [configuration of from * configurations of to + configuration of to]
    std::vector<int64_t> bytes;
  };
  std::vector<Layer> layers;
  std::vector<Edge> edges;

  int Configurations(int layer) const {
    return static_cast<int>(layers[static_cast<size_t>(layer)].ms.size());
  }
};

// The configuration of each layer, as a position in the layer's lists.
using Assignment = std::vector<int>;

// Checks the lists. An error names the layer or edge whose lists are empty, differ in length or
// hold a number that is negative or not finite.
Status Check(const SearchProblem& problem);

// Returns the total of `assignment`: DeePa's equation 1 with the costs of `problem`.
double TotalMs(const SearchProblem& problem, const Assignment& assignment);
// Returns the sum of the bytes of all layers and edges. If all groups of devices begin at the same
// device, no device needs more than this sum.
int64_t TotalBytes(const SearchProblem& problem, const Assignment& assignment);

// By layer: the configurations that are considered, in ascending order. No list is empty.
using Kept = std::vector<std::vector<int>>;

// Keeps all configurations of all layers.
Kept KeepAll(const SearchProblem& problem);

// Returns `problem`, without bytes, with each layer restricted to the configurations in `kept`. If
// a layer keeps one configuration, its edges are removed and their costs are added to the layer at
// the other end. The total of an assignment in the result equals the total of the Unrestricted()
// assignment in `problem`.
SearchProblem Restricted(const SearchProblem& problem, const Kept& kept);

// Returns the configurations of all layers, given their positions in the layers' lists in `kept`.
Assignment Unrestricted(const Kept& kept, const Assignment& positions);

}  // namespace ucudnn::planner
