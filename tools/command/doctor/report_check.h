// Describes the kernels of a process's report (`ucudnn-report`) in words. Thread-compatible.
#pragma once

#include <string>

#include "base/status.h"
#include "command/doctor/diagnosis.h"
#include "options/options.h"

namespace ucudnn::command {

struct ReportSummary {
  int kernels = 0;
  int divided = 0;
};

// Adds to `diagnosis` what the report at `path` says about each kernel, each fallback, and the
// split over ranks. Looks up workspaces of undivided engines in the stores of `options`. Fails if
// the file is no report of this version.
Result<ReportSummary> CheckReport(const std::string& path, const Options& options,
                                  Diagnosis& diagnosis);

}  // namespace ucudnn::command
