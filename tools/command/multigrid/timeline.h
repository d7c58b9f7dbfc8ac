// Draws timelines of cycles on the page of `ucudnn multigrid` reports (figure 5 of Kirby et al.).
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "command/multigrid/report.h"
#include "planner/report/markup.h"

namespace ucudnn::command {

// A stage whose solve has a timeline.
struct TimelineRow {
  std::string name;  // name of the solve
  const char* lane;  // name of one lane: thread, stream
  bool has_cpu_times;
  const ReportedStage& stage;
};

planner::Element TimelineSection(const std::vector<TimelineRow>& rows);

}  // namespace ucudnn::command
