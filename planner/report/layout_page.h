// Writes layouts as one HTML page: the strategies side by side, the network drawn with its layers
// coloured by configuration (DeePa, Figs. 9 to 12), and what each strategy moves (Fig. 8). Pure
// function.
#pragma once

#include <string>
#include <vector>

#include "planner/report/layout_json.h"

namespace ucudnn::planner {

// REQUIRES: `chosen` is one of `layouts`, and DeePa's is among them. `layer` is shown in all its
// configurations (Tables 2 and 3); -1: no layer is.
std::string FormatLayoutPage(const PlanningProblem& problem, const LayoutSetting& setting,
                             const std::vector<ParallelLayout>& layouts,
                             const ParallelLayout& chosen, int layer);

}  // namespace ucudnn::planner
