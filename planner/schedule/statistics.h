// Numbers that devices exchange because they share an operator that needs the numbers of all of
// them. Pure function.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// Returns the statistics of normalizations in the order of nodes. After them it adds, for each
// output, the statistics of a classifier whose classes are divided, and then the sum of the
// output's loss. Reads only the schedule's nodes.
std::vector<Statistics> StatisticsOf(const Schedule& schedule);

}  // namespace ucudnn::planner
