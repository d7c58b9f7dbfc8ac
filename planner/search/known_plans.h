// The best assignments known so far, with improvements by changing one layer of an assignment.
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
  // Keeps the best `most` assignments. `problem` must outlive this.
  KnownPlans(const SearchProblem& problem, int most);

  // Improves `assignment` by changes of one layer until none helps, and takes the result. If that
  // becomes the best, also takes assignments that differ from kept ones in one layer.
  void Offer(Assignment assignment);

  // In ascending order of total. Not empty after the first Offer().
  const std::set<std::pair<double, Assignment>>& plans() const { return plans_; }
  // Returns a time within which `most` assignments are known; infinite if fewer are known or exist.
  double MostMs() const;

 private:
  // Returns the costs that depend on `layer`, by its configuration, with all other layers
  // unchanged.
  std::vector<double> CostsOf(const Assignment& assignment, int layer) const;
  void Improve(Assignment& assignment) const;
  // Returns whether the assignment is kept.
  bool Insert(const Assignment& assignment);
  void Spread(Assignment best);

  const SearchProblem& problem_;
  const size_t most_;
  std::vector<std::vector<int>> edges_;  // by layer
  std::set<std::pair<double, Assignment>> plans_;
};

}  // namespace ucudnn::planner
