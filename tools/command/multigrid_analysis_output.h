// What `ucudnn multigrid --analyse` prints. Every time of a solve is modelled, and says so.
#pragma once

#include <string>

#include "command/multigrid_analysis.h"

namespace ucudnn::command {

void PrintAnalysis(const NetworkAnalysis& analysis);
// Format ucudnn-multigrid-analysis, described in planner/multigrid/FORMAT.md.
std::string FormatAnalysis(const NetworkAnalysis& analysis);

}  // namespace ucudnn::command
