// A report as one HTML page: what was divided, how, and what that gains. Shows what the report (and
// the store asked with it) holds, and says what it does not. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "command/report_file.h"
#include "planner/report/markup.h"

namespace ucudnn::command {

// `source` is the name of the file the report was read from.
std::string FormatReportPage(const RunReport& report, const std::string& source);

// "3: conv2 forward", "3: 64x27x27 -> 192, 5x5 forward": kernel `at` (from 0) of a report.
std::string KernelLabel(const RunReport& report, size_t at);

// What is drawn of the report, below its table.
planner::Element TimelineSection(const RunReport& report);           // mu-cuDNN, Fig. 9
planner::Element DesirableSetsSection(const RunReport& report);      // Fig. 8
planner::Element LayerMemorySection(const RunReport& report);        // Fig. 12
planner::Element WorkspaceDivisionSection(const RunReport& report);  // Fig. 14

}  // namespace ucudnn::command
