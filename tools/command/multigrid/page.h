// Shows outputs of `ucudnn multigrid` as one HTML page: how residuals fall at several depths or
// with several options (Kirby et al., figure 4), what runs when in a cycle (5), how training goes,
// the levels, and how scaling is modelled in analyses (6 and 7). Shows only what the files hold,
// and says what the numbers are. Pure function.
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

// REQUIRES: there is a report or an analysis.
std::string FormatMultigridPage(const MultigridFiles& files);

}  // namespace ucudnn::command
