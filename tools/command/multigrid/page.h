// Shows outputs of `ucudnn multigrid` as one HTML page, with the figures of Kirby et al.: how
// residuals fall at several depths or with several options (figure 4), what runs at which time in a
// cycle (5), the epochs of trainings, the levels, and scaling as analyses model it (6 and 7).
// Shows only what the files contain, and explains the numbers. Pure function.
#pragma once

#include <string>
#include <vector>

#include "command/multigrid/analysis_report.h"
#include "command/multigrid/report.h"

namespace ucudnn::command {

struct MultigridFiles {
  std::vector<MultigridReport> reports;
  std::vector<MultigridAnalysisReport> analyses;
};

// REQUIRES: `files` has a report or an analysis.
std::string FormatMultigridPage(const MultigridFiles& files);

}  // namespace ucudnn::command
