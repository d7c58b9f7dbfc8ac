// Draws timelines of cycles on the page of `ucudnn multigrid` reports (figure 5 of Kirby et al.).
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "command/multigrid/report.h"
#include "planner/report/markup.h"

namespace ucudnn::command {

// A stage with a timeline of its solve.
struct TimelineRow {
  std::string name;  // the name of the solve
  const char* lane;  // the name of one lane: "thread" or "stream"
  bool has_cpu_times;
  const ReportedStage& stage;
};

planner::Element TimelineSection(const std::vector<TimelineRow>& rows);

}  // namespace ucudnn::command
