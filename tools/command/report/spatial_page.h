// The part of a report's page about splitting over ranks: the ranks; each kernel's verdict, bytes
// and times; one step as a timeline of all ranks; and the grid with each kernel's halo. Pure
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

// Returns the kernels, ordered by their first calls on the first rank that has them.
std::vector<JobKernel> KernelsOf(const SplitJob& job);

// Formats the rank's part of a kernel as "64x6x12 -> 192, 5x5 forward".
std::string SplitKernelLabel(const SplitKernelEntry& kernel);

// Formats as "1, 3 to 5 and 8".
std::string NumbersText(const std::vector<size_t>& numbers);

std::vector<planner::Element> SpatialSections(const SplitJob& job);

// Sections of the page.
planner::Element StepSection(const SplitJob& job);
planner::Element HalosSection(const SplitJob& job);

}  // namespace ucudnn::command
