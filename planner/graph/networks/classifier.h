// The fully connected end of AlexNet and VGG.
#pragma once

#include "planner/graph/networks/chain.h"

namespace ucudnn::planner {

// Appends fc6 and fc7, each with its activation and dropout, fc8 and prob.
void AppendClassifier(Chain& net, int32_t classes);

}  // namespace ucudnn::planner
