// A network on stripes as JSON (format `ucudnn-spatial`, described in FORMAT.md beside this file).
// Pure function.
#pragma once

#include <optional>
#include <string>

#include "planner/striping/exact_size.h"
#include "planner/striping/striping.h"

namespace ucudnn::planner {

// `next` is the next size at which nothing is refused, where something is now.
std::string FormatStriping(const Striping& striping, const std::optional<ExactSize>& next);

}  // namespace ucudnn::planner
