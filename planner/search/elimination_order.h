// The order in which layers are eliminated, and its cost. Pure functions.
//
// Eliminating a layer replaces it and its edges by the least cost over its configurations, for
// every combination of its neighbours' configurations. For a layer with one neighbour before it and
// one after it, this is DeePa's node elimination (equation 2). Adding up parallel edges is DeePa's
// edge elimination (equation 3). Graphs that these two do not reduce (NASNet, dense blocks) need
// tables over more neighbours.
#pragma once

#include <string>
#include <vector>

#include "planner/search/problem.h"

namespace ucudnn::planner {

enum class EliminationKind {
  kNode,   // DeePa's node elimination
  kEdge,   // DeePa's edge elimination
  kLayer,  // any other elimination: of a first or last layer, a fork or a join
};

struct Elimination {
  EliminationKind kind = EliminationKind::kLayer;
  int layer = -1;               // -1 for an edge elimination
  std::vector<int> neighbours;  // in ascending order; for an edge elimination the edge's two ends
};

struct EliminationOrder {
  std::vector<int> layers;
  std::vector<Elimination> log;  // in the order of the eliminations
  int width = 0;                 // most neighbours that a layer has when it is eliminated
  double entries = 0;            // entries of all new tables, added up
  double operations = 0;         // pairs of one addition and one comparison
};

// Orders by weighted min-fill: next is the layer whose elimination joins pairs of neighbours with
// the smallest sum of products of their configuration counts. Among equals, next is the layer with
// the smallest table.
EliminationOrder OrderElimination(const SearchProblem& problem);

// Compares OrderElimination's order with 100 others, in which random factors decide among layers of
// similar weight, and returns the order with the fewest operations. The random numbers are the same
// in every call, so a problem always gets the same order. No random orders are tried if
// OrderElimination's order is cheap, or so far beyond `most_operations` that random orders cannot
// help.
EliminationOrder CheapestElimination(const SearchProblem& problem, double most_operations);

// The size of the graph that remains if only DeePa's two eliminations are applied as often as
// possible. The paper enumerates the assignments of the rest.
struct Kernel {
  int nodes = 0;
  int edges = 0;
};
Kernel DeePaKernel(const SearchProblem& problem);

}  // namespace ucudnn::planner
