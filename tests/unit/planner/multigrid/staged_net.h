// A network of three stages between other layers, for tests on several ranks.
#pragma once

#include "unit/planner/multigrid/plain_chain.h"

namespace ucudnn::multigrid {

// Of 19, 6 and 3 residual steps, for images of 6 x 6 in five classes, with drawn weights and a
// mini-batch of two images.
WeightedChain DrawnStages();

}  // namespace ucudnn::multigrid
