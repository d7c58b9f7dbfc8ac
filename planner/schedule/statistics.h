// Numbers that devices exchange because an operator divided over them needs the numbers of all.
// Pure function.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// Returns the statistics of normalizations in the order of nodes. Then follow, output by output,
// the statistics of a classifier whose classes are divided, and the sum of its loss. Reads only the
// schedule's nodes.
std::vector<Statistics> StatisticsOf(const Schedule& schedule);

}  // namespace ucudnn::planner
