// Findings of `ucudnn doctor` about splitting images over ranks: what starts the ranks, where they
// meet, what carries their exchanges, and what would make the exchanges faster. For use from main's
// thread only; opens the driver and NCCL.
#pragma once

#include <string>

#include "command/doctor/diagnosis.h"
#include "command/report/file.h"
#include "options/options.h"

namespace ucudnn::command {

// Adds findings about `options`, if a grid is set; `cudnn_file` is the program's cuDNN, beside
// which NCCL may be (empty: unknown).
void CheckSplitting(const Options& options, const std::string& cudnn_file, Diagnosis& diagnosis);

// Adds findings from the figures of a report's ranks.
void CheckSplitJob(const SplitJob& job, Diagnosis& diagnosis);

}  // namespace ucudnn::command
