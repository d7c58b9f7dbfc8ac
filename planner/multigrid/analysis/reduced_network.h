// A reduced network: a smaller network that converges about as fast as the longest stage of a
// network, so that the convergence of the stage can be estimated in little time. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

struct ReducedNetwork {
  ResidualChain chain;      // an Input and one smaller stage
  std::vector<int> layers;  // the layers of the stage that remain, in ascending order
  int stage_steps = 0;      // number of steps of the original stage
  double h_factor = 1;      // step h of the reduced network divided by the stage's
  double state_factor = 1;  // size of a state of the stage divided by the reduced network's
  std::string differences;  // such as "maps of 8x8, 5 of 20 channels"; empty if there are none
};

// Makes the reduced network of `stage`. Makes the stage smaller in the following ways, in this
// order, until a forward pass takes at most `operations` operations:
// - Maps become smaller, if the weights do not depend on the maps' size or if `draws` says that
// weights are drawn. The least extent is half of the largest window, but at least 4. In a smaller
// map more terms of each sum are the zeros around the map, which makes the sums smaller. The step h
// grows by the factor that makes up for this.
// - Channels become fewer, if weights are drawn. With the variance of drawn weights, the effect of
// a layer on the size of a state does not depend on the number of channels.
// - Only every second, fourth, ... layer remains, with a step 2, 4, ... times as large, as on a
// coarse level.
// Fails if the graph of the reduced network cannot be built.
Result<ReducedNetwork> MakeReducedNetwork(const ResidualChain& chain, const Stage& stage,
                                          bool draws, double operations);

}  // namespace ucudnn::multigrid
