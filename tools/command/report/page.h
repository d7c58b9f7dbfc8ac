// A report, or the reports of a split job's ranks, as one HTML page: what was divided, how, and the
// gain; what was split, and the cost of exchanges. Shows what the report (and the store) contains,
// and says what is missing. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "command/report/file.h"
#include "planner/report/markup.h"

namespace ucudnn::command {

// `sources` are the names of the files. `report` is the report of the first file, but its split job
// has the ranks of all files.
std::string FormatReportPage(const RunReport& report, const std::vector<std::string>& sources);

// Formats as "64x27x27 -> 192, 5x5 stride 2x2": image, filters and their size.
std::string ShapeText(const ConvolutionProblem& problem);

// Formats as "3: conv2 forward" or "3: 64x27x27 -> 192, 5x5 forward", for kernel `at` (from 0) of a
// report.
std::string KernelLabel(const RunReport& report, size_t at);

// Returns the figures of a report, which follow its table.
planner::Element TilesSection(const RunReport& report);              // grids on the image
planner::Element TimelineSection(const RunReport& report);           // mu-cuDNN, Fig. 9
planner::Element DesirableSetsSection(const RunReport& report);      // Fig. 8
planner::Element LayerMemorySection(const RunReport& report);        // Fig. 12
planner::Element WorkspaceDivisionSection(const RunReport& report);  // Fig. 14

}  // namespace ucudnn::command
