// Reduces a search problem to what plans within a bound can use. Pure function.
#pragma once

#include <functional>

#include "planner/search/elimination_order.h"
#include "planner/search/problem.h"

namespace ucudnn::planner {

struct Reduction {
  Kept kept;
  SearchProblem problem;   // Restricted to `kept`
  EliminationOrder order;  // of `problem`
  // No assignment of the whole problem takes less than the smaller of this and the bound.
  double lower_bound_ms = 0;
  // Whether the lower bound meets the bound, so that nothing better is left to be found.
  bool proved = false;
};

// Raises a dual bound on `problem` and removes configurations that no assignment within the bound
// can have. It repeats this while that helps, or until the rest can be eliminated sooner. `bound`
// gets each assignment that is found, and returns the most that a relevant plan may take; its
// answers never rise. Apart from its first passes, the ascent takes at most `most_operations`.
Reduction Reduce(const SearchProblem& problem,
                 const std::function<double(const Assignment&)>& bound, double most_operations);

// Returns whether `bound` equals `total` within rounding, which is 1e-9 of it.
bool Meets(double bound, double total);

}  // namespace ucudnn::planner
