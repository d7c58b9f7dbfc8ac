// Reduces a search problem to the configurations that plans within a bound can use. The functions
// keep no state.
#pragma once

#include <functional>

#include "planner/search/elimination_order.h"
#include "planner/search/problem.h"

namespace ucudnn::planner {

struct Reduction {
  Kept kept;
  SearchProblem problem;   // Restricted to `kept`
  EliminationOrder order;  // of `problem`
  // No assignment of the original problem takes less than the smaller of two times: lower_bound_ms,
  // and the last answer of Reduce()'s argument `bound`.
  double lower_bound_ms = 0;
  // True if lower_bound_ms reaches the last answer of `bound`, so that no better assignment exists.
  bool proved = false;
};

// Raises a dual bound on `problem` and removes configurations that no assignment within `bound` can
// have. Repeats this while configurations are removed, until eliminating the remaining problem is
// cheaper than the ascent was. `bound` is called with each assignment that is found, and returns
// the largest total that still matters; its answers must never rise. The ascent ends once it has
// taken `most_operations`, but not before its first passes.
Reduction Reduce(const SearchProblem& problem,
                 const std::function<double(const Assignment&)>& bound, double most_operations);

// Returns whether `bound` is at least `total`, up to a relative rounding error of 1e-9.
bool Meets(double bound, double total);

}  // namespace ucudnn::planner
