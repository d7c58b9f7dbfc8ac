// What is left of a search problem when everything is gone that no plan within a bound has. Pure
// function.
#pragma once

#include <functional>

#include "planner/search/elimination_order.h"
#include "planner/search/problem.h"

namespace ucudnn::planner {

struct Reduction {
  Kept kept;
  SearchProblem problem;   // Restricted to `kept`
  EliminationOrder order;  // of `problem`
  // No assignment of the whole problem takes less than this or, where that is less, the bound.
  double lower_bound_ms = 0;
  // Whether the lower bound meets the bound: nothing that takes less is left to be found.
  bool proved = false;
};

// Raises a dual bound on `problem` and removes configurations that it shows to be in no assignment
// of at most the bound, over and over while that helps or until what is left is eliminated sooner.
// `bound` is told each assignment that comes up and says what plans that matter take at most;
// its answers never rise. The ascent takes at most `most_operations`, but for its first passes.
Reduction Reduce(const SearchProblem& problem,
                 const std::function<double(const Assignment&)>& bound, double most_operations);

// Whether `bound` is `total` but for rounding: 1e-9 of it.
bool Meets(double bound, double total);

}  // namespace ucudnn::planner
