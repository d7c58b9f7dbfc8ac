// What a step of a coarse level is: which layers of its block it applies, to which input.
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/hierarchy.h"

namespace ucudnn::multigrid {

// With F_n the layers of a block of `s` from n = 0 on, h the chain's step and H = sh:
enum class CoarseOperator {
  kInject,  // u + H F_0(u), as Kirby et al. have it (equation 25)
  kSum      // u + h sum of all F_n(u): one input, so they can run at once
};

const char* NameOf(CoarseOperator coarse);  // inject, sum
Result<CoarseOperator> ParseCoarseOperator(const std::string& name);

// Layers begin..end - 1, each weighted by `factor`, of one input.
struct LayerRange {
  int begin = 0;
  int end = 0;
  double factor = 1;
};

// What step `step` of `level` applies, with factors for a chain of step h.
LayerRange LayersOf(CoarseOperator coarse, const Level& level, int step, double h);
// The same for the adjoint, whose step 0 is that of the level's last step. `level` is of the
// chain's hierarchy, mirrored.
LayerRange AdjointLayersOf(CoarseOperator coarse, const Level& level, int step, double h);

}  // namespace ucudnn::multigrid
