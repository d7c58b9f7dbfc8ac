// Coarse operators: which layers of its block a step of a coarse level applies, to which input.
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/hierarchy.h"

namespace ucudnn::multigrid {

// How a coarse step replaces a block of s layers F_0 to F_(s-1), with h the chain's step and H =
// sh.
enum class CoarseOperator {
  kInject,  // u + H F_0(u): equation 25 of Kirby et al.
  kSum      // u + h times the sum of all F_n(u): all read one input, so they can run at once
};

const char* NameOf(CoarseOperator coarse);  // inject, sum
Result<CoarseOperator> ParseCoarseOperator(const std::string& name);

// Layers begin to end - 1, all applied to one input and weighted by `factor`.
struct LayerRange {
  int begin = 0;
  int end = 0;
  double factor = 1;
};

// Returns the layers that step `step` of `level` applies. `h` is the step of the chain.
LayerRange LayersOf(CoarseOperator coarse, const Level& level, int step, double h);
// Returns the layers of the adjoint's step `step`: step 0 is the adjoint of the level's last step.
// `level` is a level of the chain's hierarchy, not of the mirrored one.
LayerRange AdjointLayersOf(CoarseOperator coarse, const Level& level, int step, double h);

}  // namespace ucudnn::multigrid
