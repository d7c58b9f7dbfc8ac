// A network whose branches of several resolutions exchange all with all: HRNet-W18-C-Small v1 (Wang
// et al., "Deep high-resolution representation learning", and its authors' classification models).
// Weighted min-fill eliminates its layers with six times the operations that good orders take.
#pragma once

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

Result<Graph> HrNetW18Small();

}  // namespace ucudnn::planner
