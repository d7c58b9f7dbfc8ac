// The best assignments known so far, and their improvement by changes of one layer.
// Thread-compatible.
#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "planner/search/problem.h"

namespace ucudnn::planner {

class KnownPlans {
 public:
  // Keeps the best assignments, at most `most` of them. `problem` must outlive the object.
  KnownPlans(const SearchProblem& problem, int most);

  // Improves `assignment` by changes of one layer until no change helps, and keeps the result if it
  // is among the best. If the result is kept and `most` is above 1, also keeps good assignments
  // that differ in one layer from a kept one.
  void Offer(Assignment assignment);

  // Returns the kept assignments with their totals, in ascending order of total. Not empty after
  // the first Offer().
  const std::set<std::pair<double, Assignment>>& plans() const { return plans_; }
  // Returns the largest total of the kept assignments if `most` of them are kept; else infinity.
  double MostMs() const;

 private:
  // Returns, by configuration of `layer`, the sum of all costs that depend on `layer` if all other
  // layers are as in `assignment`.
  std::vector<double> CostsOf(const Assignment& assignment, int layer) const;
  void Improve(Assignment& assignment) const;
  // Returns whether the assignment was added to the kept assignments.
  bool Insert(const Assignment& assignment);
  void Spread(Assignment best);

  const SearchProblem& problem_;
  const size_t most_;
  std::vector<std::vector<int>> edges_;  // by layer
  std::set<std::pair<double, Assignment>> plans_;
};

}  // namespace ucudnn::planner
