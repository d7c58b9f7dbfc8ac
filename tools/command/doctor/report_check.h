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

// Adds to `diagnosis` what the report at `path` says: each kernel, what it runs and why, each
// fallback, and what was split. The stores of `options` give the workspaces of undivided engines.
// If the file is no report, the error says so.
Result<ReportSummary> CheckReport(const std::string& path, const Options& options,
                                  Diagnosis& diagnosis);

}  // namespace ucudnn::command
