// DeePa's equation 1 as numbers: what every configuration of every layer costs, and every pair of
// configurations at the two ends of every edge. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::planner {

// The cost of a pair of configurations that no plan may have; far above any time of a step.
constexpr double kForbiddenMs = 1e9;

struct SearchProblem {
  struct Layer {
    std::string name;
    std::vector<double> ms;  // compute + update, by configuration
    std::vector<int64_t>
        bytes;  // of one device; empty in all layers and edges: memory is no matter
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

// The configuration of each layer: a position in its lists.
using Assignment = std::vector<int>;

// An error names the layer or edge whose lists are empty, differ in length or hold a number that is
// negative or not finite.
Status Check(const SearchProblem& problem);

// Equation 1, summed from scratch.
double TotalMs(const SearchProblem& problem, const Assignment& assignment);
// Bytes of the layers and edges together: no device needs more where all groups begin at one.
int64_t TotalBytes(const SearchProblem& problem, const Assignment& assignment);

// The configurations of each layer that are looked at, rising; no list is empty.
using Kept = std::vector<std::vector<int>>;

// All configurations of all layers.
Kept KeepAll(const SearchProblem& problem);

// The times of `problem` with each layer held to the configurations in `kept`; bytes are left out.
// A layer that keeps one configuration has no edge left: the layer at the other end has its costs.
// So every assignment of positions in `kept` totals what the configurations there do.
SearchProblem Restricted(const SearchProblem& problem, const Kept& kept);

// The configurations that positions in `kept` stand for.
Assignment Unrestricted(const Kept& kept, const Assignment& positions);

}  // namespace ucudnn::planner
