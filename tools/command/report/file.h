// Reads reports of runs (`ucudnn-report`) and offline plans (`ucudnn-workspace-table`). Other
// programs may have written the files, so every value is checked before use. Thread-compatible.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/status.h"
#include "convolution/report_format.h"

namespace ucudnn::command {

// Parses a report. Ignores unknown members. The error names the place of the wrong value, such as
// "kernels[3].plan[0].count", and what was expected.
Result<RunReport> ParseReport(const std::string& json);

// Reads and parses a file; errors begin with its name.
Result<RunReport> ReadReport(const std::string& path);

// The times of a rank's timed step, and of the exchanges and sums in that step.
struct StepTimes {
  double step_ms = 0;
  double exchange_ms = 0, sum_ms = 0;
  double exposed_exchange_ms = 0, exposed_sum_ms = 0;  // times for which its calls wait
  std::optional<size_t> worst;  // the kernel whose calls wait longest for exchanges
};
StepTimes StepTimesOf(const RankEntry& rank);

// Adds the ranks of another report. If the two reports are not of one job, the error says why.
Status JoinSplitJob(SplitJob more, SplitJob& job);

}  // namespace ucudnn::command
