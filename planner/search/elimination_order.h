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

}  // namespace ucudnn::planner
