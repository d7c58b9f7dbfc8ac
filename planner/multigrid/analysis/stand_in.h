// A smaller network that converges about as the longest stage of a network does, to estimate its
// rate in little time. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

struct StandIn {
  ResidualChain chain;      // the stage alone, behind an Input
  std::vector<int> layers;  // which of the stage's layers it has, in rising order
  int stage_steps = 0;      // of the stage itself
  double h_factor = 1;      // of the stage's step
  double state_factor = 1;  // numbers of a state of the stage for one of its own
  std::string differences;  // "maps of 8x8, 5 of 20 channels"; empty: none
};

// What may differ from the stage, in the order in which it is made to:
// - maps become smaller, down to half of the largest window (but 4), where the weights do not
// depend on
//   their size or `draws` says that they are drawn anyway. Zeros around a smaller map take a larger
//   part of each sum; the step h grows by what they take.
// - channels become fewer, where weights are drawn: with the variance of drawn weights, what a
// layer
//   does to the size of a state does not depend on its width.
// - every second, fourth, ... layer stays, with as many times the step, as on a coarse level.
// As little of it as brings a forward pass below `operations`, or all. The error is that of a graph
// which cannot be built.
Result<StandIn> MakeStandIn(const ResidualChain& chain, const Stage& stage, bool draws,
                            double operations);

}  // namespace ucudnn::multigrid
