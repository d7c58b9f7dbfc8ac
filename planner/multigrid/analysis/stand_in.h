// A smaller network that converges about as fast as the longest stage of a network, so that its
// rate is estimated in little time. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

struct StandIn {
  ResidualChain chain;      // the stage alone, behind an Input
  std::vector<int> layers;  // the stage's layers that the stand-in has, in rising order
  int stage_steps = 0;      // the steps of the stage itself
  double h_factor = 1;      // the stand-in's step h is this times the stage's
  double state_factor = 1;  // numbers of a state: the stage's divided by the stand-in's
  std::string differences;  // such as "maps of 8x8, 5 of 20 channels"; empty: none
};

// Makes the stand-in of `stage`. It differs from the stage in these ways, tried in this order, and
// only so far as brings the operations of a forward pass below `operations`:
// - Maps become smaller, down to half of the largest window but at least 4, if the weights do not
//   depend on their size or `draws` says that weights are drawn. Zeros around a smaller map take a
//   larger part of each sum, so the step h grows by as much.
// - Channels become fewer, if weights are drawn: with the variance of drawn weights, the effect of
//   a layer on the size of a state does not depend on its width.
// - Every second, fourth, ... layer stays, with as many times the step, as on a coarse level.
// Fails if the graph of the stand-in cannot be built.
Result<StandIn> MakeStandIn(const ResidualChain& chain, const Stage& stage, bool draws,
                            double operations);

}  // namespace ucudnn::multigrid
