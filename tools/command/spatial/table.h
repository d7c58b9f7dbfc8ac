// Prints the output of `ucudnn spatial`: a table of operators, and conclusions in sentences. Used
// from main's thread only.
#pragma once

#include "planner/striping/exact_size.h"
#include "planner/striping/striping.h"

namespace ucudnn::command {

// `next` has the changes with which no operator is refused (exact_size.h). It is used only if an
// operator is refused.
void PrintStriping(const planner::Striping& striping, const planner::NextExact& next);

}  // namespace ucudnn::command
