// Shows strong scaling, as `ucudnn multigrid --analyse` models it, on a page (figures 6 and 7 of
// Kirby et al.). Pure functions.
#pragma once

#include "command/multigrid/analysis_report.h"
#include "planner/report/markup.h"

namespace ucudnn::command {

// `number` (1, 2, ...) distinguishes the sections of a page.
planner::Element ScalingSection(const MultigridAnalysisReport& analysis, size_t number);

}  // namespace ucudnn::command
