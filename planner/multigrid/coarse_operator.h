// Coarse operators: the layers that one step of a coarse level applies, in place of a block of
// layers. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/hierarchy.h"

namespace ucudnn::multigrid {

// How a coarse step replaces a block of s layers F_0 to F_(s-1). h is the step of the chain, and H
// = s h.
enum class CoarseOperator {
  kInject,  // u + H F_0(u): equation 25 of Kirby et al.
  kSum      // u + h (F_0(u) + ... + F_(s-1)(u)): all layers read one input, so they can run at once
};

const char* NameOf(CoarseOperator coarse);  // "inject" or "sum"
Result<CoarseOperator> ParseCoarseOperator(const std::string& name);

// Layers begin to end - 1, which are all applied to one input and weighted by `factor`.
struct LayerRange {
  int begin = 0;
  int end = 0;
  double factor = 1;
};

// Returns the layers that step `step` of `level` applies. `h` is the step of the chain.
LayerRange LayersOf(CoarseOperator coarse, const Level& level, int step, double h);
// Returns the layers of the adjoint's step `step`, where step 0 is the adjoint of the level's last
// step. `level` is a level of the chain's hierarchy, not of the mirrored hierarchy.
LayerRange AdjointLayersOf(CoarseOperator coarse, const Level& level, int step, double h);

}  // namespace ucudnn::multigrid
