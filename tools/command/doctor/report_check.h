// What a process's own report (`ucudnn-report`) says of its kernels, in words. Thread-compatible.
#pragma once

#include <string>

#include "base/options.h"
#include "base/status.h"
#include "command/doctor/diagnosis.h"

namespace ucudnn::command {

struct ReportSummary {
  int kernels = 0;
  int divided = 0;
};

// Adds every kernel of the report at `path` with what runs and why, every fallback, and what was
// split. The stores of `options` say what an engine needs undivided. The error says what the file
// is instead of a report.
Result<ReportSummary> CheckReport(const std::string& path, const Options& options,
                                  Diagnosis& diagnosis);

}  // namespace ucudnn::command
