// The sections of a report's page about splitting over ranks. They show the ranks, the kernels with
// their bytes and times, one step as a timeline of all ranks, and the halos on the grid. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "command/report/file.h"
#include "planner/report/markup.h"

namespace ucudnn::command {

// A kernel of the job, with its entries on all ranks that have it.
struct JobKernel {
  struct OfRank {
    size_t rank = 0;    // index in SplitJob::ranks
    size_t kernel = 0;  // index among that rank's kernels
  };
  std::vector<OfRank> ranks;
};

// Returns the kernels of the job: those of the first rank in its order, then those that only later
// ranks have.
std::vector<JobKernel> KernelsOf(const SplitJob& job);

// Formats a kernel with the shape of the rank's part, as "64x6x12 -> 192, 5x5 forward".
std::string SplitKernelLabel(const SplitKernelEntry& kernel);

// Formats as "1, 3 to 5, 8". REQUIRES: the numbers ascend.
std::string NumbersText(const std::vector<size_t>& numbers);

std::vector<planner::Element> SpatialSections(const SplitJob& job);

// Sections of the page.
planner::Element StepSection(const SplitJob& job);
planner::Element HalosSection(const SplitJob& job);

}  // namespace ucudnn::command
