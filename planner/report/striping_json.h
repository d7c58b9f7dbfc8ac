// A network on stripes as JSON (format `ucudnn-spatial`, described in FORMAT.md beside this file).
// Pure function.
#pragma once

#include <string>

#include "planner/striping/exact_size.h"
#include "planner/striping/striping.h"

namespace ucudnn::planner {

// Where something is refused, `next` says when nothing is.
std::string FormatStriping(const Striping& striping, const NextExact& next);

}  // namespace ucudnn::planner
