// In which order layers are eliminated, and what that takes. Pure functions.
//
// Eliminating a layer replaces it and its edges by the least cost over its configurations, for
// every combination of its neighbours' configurations. With one neighbour before it and one behind,
// that is DeePa's node elimination (equation 2); adding up parallel edges is its edge elimination
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
  int layer = -1;               // not of an edge elimination
  std::vector<int> neighbours;  // rising; the two ends of an edge elimination
};

struct EliminationOrder {
  std::vector<int> layers;
  std::vector<Elimination> log;  // in the order they happen
  int width = 0;                 // most neighbours of a layer when it is eliminated
  double entries = 0;            // of all tables made, together
  double operations = 0;         // additions and comparisons, as pairs
};

// Weighted min-fill: next comes the layer whose elimination joins neighbours of the smallest
// combined configuration counts, among equals the one with the smallest table.
EliminationOrder OrderElimination(const SearchProblem& problem);

// The one with the fewest operations of OrderElimination's and of 100 more, in which chance decides
// among layers of much the same weight; always the same for a problem. OrderElimination's alone
// where that is cheap, or so far beyond `most_operations` that no luck helps.
EliminationOrder CheapestElimination(const SearchProblem& problem, double most_operations);

// What is left when only DeePa's two eliminations are applied as often as possible; the paper
// enumerates the rest.
struct Kernel {
  int nodes = 0;
  int edges = 0;
};
Kernel DeePaKernel(const SearchProblem& problem);

}  // namespace ucudnn::planner
