// Numbers that devices bring together because an operator divided over them needs those of all.
// Pure function.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// The statistics of normalizations and softmaxes in the order of nodes; then, output by output,
// those of a classifier whose classes are divided, and the sum of its loss. Reads the schedule's
// nodes alone.
std::vector<Statistics> StatisticsOf(const Schedule& schedule);

}  // namespace ucudnn::planner
