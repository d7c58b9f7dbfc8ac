// Numbers that devices exchange because they share an operator that needs the numbers of all these
// devices. Pure function.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// Returns the statistics of normalizations in the order of nodes. Then follow, for each output, the
// statistics of a classifier whose classes are divided, and the sum of the output's loss. Reads
// only the schedule's nodes.
std::vector<Statistics> StatisticsOf(const Schedule& schedule);

}  // namespace ucudnn::planner
