// The best assignments that are known so far, and what changing one layer of one makes of it.
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
  // The best `most` are kept. `problem` outlives this.
  KnownPlans(const SearchProblem& problem, int most);

  // Takes `assignment` once no change of one layer improves it. The best one brings along those
  // that differ from kept ones in one layer.
  void Offer(Assignment assignment);

  // By rising total. Not empty once something was offered.
  const std::set<std::pair<double, Assignment>>& plans() const { return plans_; }
  // `most` assignments take no more than this. Infinite where fewer are known, or there are no
  // more.
  double MostMs() const;

 private:
  // The costs that depend on `layer`, by its configuration, all others as they are.
  std::vector<double> CostsOf(const Assignment& assignment, int layer) const;
  void Improve(Assignment& assignment) const;
  // Whether it is kept.
  bool Insert(const Assignment& assignment);
  void Spread(Assignment best);

  const SearchProblem& problem_;
  const size_t most_;
  std::vector<std::vector<int>> edges_;  // by layer
  std::set<std::pair<double, Assignment>> plans_;
};

}  // namespace ucudnn::planner
