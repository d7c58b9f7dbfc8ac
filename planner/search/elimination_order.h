// The order in which layers are eliminated, and its cost. Pure functions.
//
// Eliminating a layer replaces it and its edges by the least cost over its configurations, for
// every combination of its neighbours' configurations. For a layer with one neighbour before it and
// one after it, this is DeePa's node elimination (equation 2). Adding up parallel edges is DeePa's
// edge elimination (equation 3). Graphs that these two do not reduce (NASNet, dense blocks) need
// tables over more neighbours.
#pragma once

#include <vector>

#include "planner/search/problem.h"

namespace ucudnn::planner {

struct EliminationOrder {
  std::vector<int> layers;
  double entries = 0;     // entries of all new tables, added up
  double operations = 0;  // pairs of one addition and one comparison
};

// Orders by weighted min-fill. Eliminating a layer joins all pairs of its neighbours. The fill of
// the layer is the sum, over the pairs that are not joined yet, of the product of both
// configuration counts. Next is the layer with the smallest fill and, among equals, with the
// smallest table.
EliminationOrder OrderElimination(const SearchProblem& problem);

// Compares OrderElimination's order with 100 others, in which random factors decide among layers of
// similar weight, and returns the order with the fewest operations. The random numbers are the same
// in every call, so a problem always gets the same order. Tries no random orders if
// OrderElimination's order is cheap. Tries none either if that order is so far beyond
// `most_operations` that random orders cannot help.
EliminationOrder CheapestElimination(const SearchProblem& problem, double most_operations);

}  // namespace ucudnn::planner
