// Writes predictions for a network whose images are cut into stripes as JSON (format
// `ucudnn-spatial`, described in FORMAT.md beside this file). Pure function.
#pragma once

#include <string>

#include "planner/striping/exact_size.h"
#include "planner/striping/striping.h"

namespace ucudnn::planner {

// `next` has the sizes and multiples with which no operator would be refused. They are written only
// if an operator is refused.
std::string FormatStriping(const Striping& striping, const NextExact& next);

}  // namespace ucudnn::planner
