// Builds HRNet-W18-C-Small v1 (Wang et al., "Deep high-resolution representation learning"; a
// classification model of the authors). The network has branches of several resolutions, each of
// which reads all the others. It is hard for the search: eliminating its layers in the order of
// weighted min-fill takes more than five times as many operations as in the best order found.
#pragma once

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

Result<Graph> HrNetW18Small();

}  // namespace ucudnn::planner
