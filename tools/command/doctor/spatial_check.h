// Findings of `ucudnn doctor` about splitting images over ranks: the launcher of the ranks, their
// meeting place, the transport of their exchanges, and ways to make exchanges faster. Used from
// main's thread only; opens NCCL.
#pragma once

#include <string>

#include "command/doctor/diagnosis.h"
#include "command/report/file.h"
#include "options/options.h"

namespace ucudnn::command {

// Adds findings about `options` if a grid is set. `cudnn_file` is the program's cuDNN, in whose
// folder NCCL may be; empty if unknown.
void CheckSplitting(const Options& options, const std::string& cudnn_file, Diagnosis& diagnosis);

// Adds findings from the figures of a report's ranks.
void CheckSplitJob(const SplitJob& job, Diagnosis& diagnosis);

}  // namespace ucudnn::command
