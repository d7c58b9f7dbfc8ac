// Shows a report, or the reports of a split job's ranks, as one HTML page: the divisions and their
// gains, and the exchanges of split kernels and their costs. The page says which data the report
// lacks. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "command/report/file.h"
#include "planner/report/markup.h"

namespace ucudnn::command {

// `sources` are the names of the files. `report` is the report of the first file, but its split job
// has the ranks of all files.
std::string FormatReportPage(const RunReport& report, const std::vector<std::string>& sources);

// Formats as "64x27x27 -> 192, 5x5 stride 2x2": the image's channels and extents, the number of
// filters and their extents, and the stride unless it is 1.
std::string ShapeText(const ConvolutionProblem& problem);

// Formats as "3: conv2 forward" or "3: 64x27x27 -> 192, 5x5 forward", for kernel `at` (from 0) of a
// report.
std::string KernelLabel(const RunReport& report, size_t at);

// Sections of the page that draw figures.
planner::Element TilesSection(const RunReport& report);              // grids on the image
planner::Element TimelineSection(const RunReport& report);           // mu-cuDNN, Fig. 9
planner::Element DesirableSetsSection(const RunReport& report);      // Fig. 8
planner::Element LayerMemorySection(const RunReport& report);        // Fig. 12
planner::Element WorkspaceDivisionSection(const RunReport& report);  // Fig. 14

}  // namespace ucudnn::command
