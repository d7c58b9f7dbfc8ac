// Enumerate() returns every assignment of a search problem, which must be small.
#pragma once

#include <utility>
#include <vector>

#include "planner/search/problem.h"

namespace ucudnn::planner {

inline std::vector<Assignment> Enumerate(const SearchProblem& problem) {
  std::vector<Assignment> all = {{}};
  for (size_t layer = 0; layer < problem.layers.size(); ++layer) {
    std::vector<Assignment> longer;
    for (const Assignment& assignment : all) {
      for (int choice = 0; choice < problem.Configurations(static_cast<int>(layer)); ++choice) {
        longer.push_back(assignment);
        longer.back().push_back(choice);
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace ucudnn::planner
