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
  // No assignment of the original problem has a total below the smaller of lower_bound_ms and the
  // last answer of Reduce()'s argument `bound`.
  double lower_bound_ms = 0;
  // True if lower_bound_ms reaches the last answer of `bound`, so that no better assignment exists.
  bool proved = false;
};

// Repeats two steps. A dual ascent (DualAscent) raises a lower bound on the totals of `problem`.
// Then all configurations are removed that no assignment with a total of at most `bound` can have.
// Ends when the lower bound reaches `bound`, when no configuration was removed, or when an
// elimination of the remaining problem needs fewer operations than the ascents did, at the latest
// after 8 ascents. The ascents also end after `most_operations`, but not before the first passes.
//
// `bound` is called with each assignment that is found, and returns the largest total that still
// matters. Its answers must never rise.
Reduction Reduce(const SearchProblem& problem,
                 const std::function<double(const Assignment&)>& bound, double most_operations);

// Returns whether `bound` is at least `total`, up to a relative rounding error of 1e-9.
bool Meets(double bound, double total);

}  // namespace ucudnn::planner
