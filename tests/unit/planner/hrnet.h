// Builds HRNet-W18-C-Small v1 (Wang et al., "Deep high-resolution representation learning", and its
// authors' classification models). It has branches of several resolutions, and every branch reads
// all others. Eliminating its layers by weighted min-fill takes more than five times as many
// operations as the cheapest order that is found.
#pragma once

#include "base/status.h"
#include "planner/graph/graph.h"

namespace ucudnn::planner {

Result<Graph> HrNetW18Small();

}  // namespace ucudnn::planner
