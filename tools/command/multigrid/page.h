// Shows outputs of `ucudnn multigrid` as one HTML page, with the figures of Kirby et al.: the
// residuals of solves by cycle (figure 4), the timeline of a cycle (figure 5), the epochs of
// trainings, the levels, and modelled scaling (figures 6 and 7). The page explains its numbers, and
// leaves out figures for which the files have no data. Pure function.
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
