// A smaller network that converges about as fast as the longest stage of a network, so that the
// convergence of the stage can be estimated in little time. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

struct StandIn {
  ResidualChain chain;      // an Input and one smaller stage
  std::vector<int> layers;  // the layers of the stage that the stand-in has, in ascending order
  int stage_steps = 0;      // number of steps of the original stage
  double h_factor = 1;      // the stand-in's step h divided by the stage's
  double state_factor = 1;  // numbers of a state of the stage divided by those of the stand-in
  std::string differences;  // such as "maps of 8x8, 5 of 20 channels"; empty if there are none
};

// Makes the stand-in of `stage`. Makes it smaller in the following ways, in this order, until a
// forward pass takes at most `operations` operations:
// - Maps become smaller, down to half of the largest window but at least 4, if the weights do not
// depend on the maps' size or `draws` says that weights are drawn. In a smaller map more terms of
// each sum are the zeros around the map, which makes the sums smaller. The step h grows by the
// factor that makes up for this.
// - Channels become fewer if weights are drawn, because with the variance of drawn weights the
// effect of a layer on the size of a state does not depend on the number of channels.
// - Only every second, fourth, ... layer remains, with a step 2, 4, ... times as large, as on a
// coarse level.
// Fails if the graph of the stand-in cannot be built.
Result<StandIn> MakeStandIn(const ResidualChain& chain, const Stage& stage, bool draws,
                            double operations);

}  // namespace ucudnn::multigrid
