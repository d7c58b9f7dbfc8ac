// A report, or those of a split job's ranks, as one HTML page: what was divided, how, and what that
// gains; what was split, and what the exchange takes. Shows what the report (and
// the store asked with it) holds, and says what it does not. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "command/report/file.h"
#include "planner/report/markup.h"

namespace ucudnn::command {

// `sources` are the names of the files that were read; `report` is of the first of them, but for
// the split job, which is of all.
std::string FormatReportPage(const RunReport& report, const std::vector<std::string>& sources);

// "64x27x27 -> 192, 5x5 stride 2x2": image, filters and their size.
std::string ShapeText(const ConvolutionProblem& problem);

// "3: conv2 forward", "3: 64x27x27 -> 192, 5x5 forward": kernel `at` (from 0) of a report.
std::string KernelLabel(const RunReport& report, size_t at);

// What is drawn of the report, below its table.
planner::Element TilesSection(const RunReport& report);              // grids on the image
planner::Element TimelineSection(const RunReport& report);           // mu-cuDNN, Fig. 9
planner::Element DesirableSetsSection(const RunReport& report);      // Fig. 8
planner::Element LayerMemorySection(const RunReport& report);        // Fig. 12
planner::Element WorkspaceDivisionSection(const RunReport& report);  // Fig. 14

}  // namespace ucudnn::command
