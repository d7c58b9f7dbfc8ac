// Writes schedules as JSON (format `ucudnn-schedule`, described in FORMAT.md beside this file).
// Pure function.
#pragma once

#include <string>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

const char* StatisticsName(StatisticsKind kind);  // "batch_normalization", "classifier", ...

// Writes one node, exchange or sum per line.
std::string FormatSchedule(const Schedule& schedule);

}  // namespace ucudnn::planner
