// What `ucudnn spatial` prints: a table of operators, and what follows from it in sentences. Used
// from main's thread only.
#pragma once

#include <optional>

#include "planner/striping/exact_size.h"
#include "planner/striping/striping.h"

namespace ucudnn::command {

// `next` is the next size at which nothing is refused, where something is now.
void PrintStriping(const planner::Striping& striping,
                   const std::optional<planner::ExactSize>& next);

}  // namespace ucudnn::command
