// The figures of splitting over ranks so far, as the report shows them. Pure function.
#pragma once

#include "convolution/report_format.h"
#include "spatial/kernel_figures.h"

namespace ucudnn::interposer {

// Returns the figures of one rank; who it is and what its exchanges take are left to the caller.
RankEntry ReportedRank(const spatial::RankFigures& figures);

}  // namespace ucudnn::interposer
