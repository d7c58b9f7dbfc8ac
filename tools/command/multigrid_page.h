// Reports of `ucudnn multigrid` as one HTML page: how residuals fall, at several depths or with
// several options (Kirby et al., figure 4), the levels, and how training goes. Shows what the
// reports hold, and says what the numbers are. Pure function.
#pragma once

#include <string>
#include <vector>

#include "command/multigrid_report.h"

namespace ucudnn::command {

// REQUIRES: there is a report.
std::string FormatMultigridPage(const std::vector<MultigridReport>& reports);

}  // namespace ucudnn::command
