// What splitting over ranks did, on the page of reports: the ranks, each kernel's verdict, bytes
// and times, one step as a timeline of all ranks, and the grid with each kernel's halo. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "command/report/spatial_report.h"
#include "planner/report/markup.h"

namespace ucudnn::command {

// A kernel of the job: the same on all ranks that have it.
struct JobKernel {
  struct OfRank {
    size_t rank = 0;    // among the job's entries
    size_t kernel = 0;  // among that rank's
  };
  std::vector<OfRank> ranks;
};

// By their first calls on the first rank that has them.
std::vector<JobKernel> KernelsOf(const SplitJob& job);

// "64x6x12 -> 192, 5x5 forward", of the rank's part.
std::string SplitKernelLabel(const SplitKernelEntry& kernel);

// "1, 3 to 5 and 8".
std::string NumbersText(const std::vector<size_t>& numbers);

std::vector<planner::Element> SpatialSections(const SplitJob& job);

// Parts of it.
planner::Element StepSection(const SplitJob& job);
planner::Element HalosSection(const SplitJob& job);

}  // namespace ucudnn::command
