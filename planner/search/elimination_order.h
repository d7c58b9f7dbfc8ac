// In which order layers are eliminated, and the cost of that. Pure functions.
//
// Eliminating a layer replaces it and its edges by the least cost over its configurations, for
// every combination of its neighbours' configurations. With one neighbour before it and one behind,
// that is DeePa's node elimination (equation 2). Adding up parallel edges is its edge elimination
// (equation 3). Graphs that those two do not reduce (NASNet, dense blocks) need tables over more
// neighbours.
#pragma once

#include <string>
#include <vector>

#include "planner/search/problem.h"

namespace ucudnn::planner {

enum class EliminationKind {
  kNode,   // DeePa's node elimination
  kEdge,   // DeePa's edge elimination
  kLayer,  // any other: a first or last layer, a fork, a join
};

struct Elimination {
  EliminationKind kind = EliminationKind::kLayer;
  int layer = -1;               // none for an edge elimination
  std::vector<int> neighbours;  // in ascending order; for an edge elimination its two ends
};

struct EliminationOrder {
  std::vector<int> layers;
  std::vector<Elimination> log;  // in the order they happen
  int width = 0;                 // most neighbours of a layer at its elimination
  double entries = 0;            // entries of all new tables together
  double operations = 0;         // additions and comparisons, counted in pairs
};

// Orders by weighted min-fill: the next layer is the one whose elimination joins neighbours with
// the smallest combined configuration counts, among equals the one with the smallest table.
EliminationOrder OrderElimination(const SearchProblem& problem);

// Returns the order with the fewest operations among OrderElimination's and 100 more, in which
// chance decides among layers of similar weight. The result is always the same for a problem. Only
// OrderElimination's order is tried if it is cheap, or so far beyond `most_operations` that no luck
// helps.
EliminationOrder CheapestElimination(const SearchProblem& problem, double most_operations);

// What remains if only DeePa's two eliminations are applied as often as possible. The paper
// enumerates the rest.
struct Kernel {
  int nodes = 0;
  int edges = 0;
};
Kernel DeePaKernel(const SearchProblem& problem);

}  // namespace ucudnn::planner
