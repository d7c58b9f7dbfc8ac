// The output of `ucudnn spatial`: a table of operators, and conclusions in sentences. Used from
// main's thread only.
#pragma once

#include "planner/striping/exact_size.h"
#include "planner/striping/striping.h"

namespace ucudnn::command {

// If an operator is refused, `next` has the changes with which none is refused (exact_size.h).
void PrintStriping(const planner::Striping& striping, const planner::NextExact& next);

}  // namespace ucudnn::command
