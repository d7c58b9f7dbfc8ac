// Writes layouts as one HTML page: the strategies side by side, the network drawn with its layers
// coloured by configuration (DeePa, Figs. 9 to 12), and the bytes that each strategy moves (Fig.
// 8). Pure function.
#pragma once

#include <string>
#include <vector>

#include "planner/report/layout_json.h"

namespace ucudnn::planner {

// The page also shows layer `layer` in all its configurations (Tables 2 and 3), unless it is -1.
// REQUIRES: `chosen` is one of `layouts`, and DeePa's layout is among them.
std::string FormatLayoutPage(const PlanningProblem& problem, const LayoutSetting& setting,
                             const std::vector<ParallelLayout>& layouts,
                             const ParallelLayout& chosen, int layer);

}  // namespace ucudnn::planner
