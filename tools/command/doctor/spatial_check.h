// Findings of `ucudnn doctor` about splitting images over ranks: the launcher, the address where
// the ranks meet, the transport of the exchanges, and ways to make exchanges faster. Used from
// main's thread only; opens NCCL.
#pragma once

#include <string>

#include "command/doctor/diagnosis.h"
#include "command/report/file.h"
#include "options/options.h"

namespace ucudnn::command {

// Adds findings about `options` if a grid is set. NCCL may be in the folder of `cudnn_file`, the
// program's cuDNN (empty: unknown).
void CheckSplitting(const Options& options, const std::string& cudnn_file, Diagnosis& diagnosis);

// Adds facts and findings from the measured times of a report's ranks.
void CheckSplitJob(const SplitJob& job, Diagnosis& diagnosis);

}  // namespace ucudnn::command
