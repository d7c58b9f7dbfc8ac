// Converts the figures of splitting over ranks to the form of the report. Pure function.
#pragma once

#include "convolution/report_format.h"
#include "spatial/kernel_figures.h"

namespace ucudnn::interposer {

// Returns the figures of one rank. The caller sets the rank's number, its calls, its transport, and
// the memory of its exchanges.
RankEntry ReportedRank(const spatial::RankFigures& figures);

}  // namespace ucudnn::interposer
