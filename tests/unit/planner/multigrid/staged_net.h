// Makes a network of three stages between other layers, for tests on several ranks.
#pragma once

#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

// Returns a network whose stages have 19, 6 and 3 residual steps, for images of 6 x 6 pixels and
// five classes. Weights are drawn, and the mini-batch has two images.
WeightedChain DrawnStages();

}  // namespace ucudnn::multigrid
