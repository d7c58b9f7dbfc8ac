// Draws hierarchies and options of a solve at random, for property tests.
#pragma once

#include <random>
#include <string>

#include "planner/multigrid/hierarchy.h"
#include "planner/multigrid/solver.h"
#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

struct DrawnSolve {
  Hierarchy hierarchy;
  SolveSetting setting;  // of this hierarchy; `coarse` and `h` are not drawn
  SolveOptions options;  // one unmeasured cycle from a broadcast, without tolerance

  std::string Text() const;
};

// Draws 4 to `most_steps` layers and at least two levels. The factors of coarsening need not divide
// the number of layers.
DrawnSolve DrawSolve(std::mt19937_64& random, int most_steps);

// Draws a number from `low` to `high`, both included.
int DrawNumber(std::mt19937_64& random, int low, int high);

}  // namespace ucudnn::multigrid
