// Writes a network on stripes as JSON (format `ucudnn-spatial`, described in FORMAT.md beside this
// file). Pure function.
#pragma once

#include <string>

#include "planner/striping/exact_size.h"
#include "planner/striping/striping.h"

namespace ucudnn::planner {

// `next` gives the next size or multiple with which no operator is refused. It is written only if
// an operator is refused.
std::string FormatStriping(const Striping& striping, const NextExact& next);

}  // namespace ucudnn::planner
