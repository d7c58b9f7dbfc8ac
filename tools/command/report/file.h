// Reads reports of runs (`ucudnn-report`) and offline plans (`ucudnn-workspace-table`). A file may
// come from an untrusted source, so every value is checked before use. Thread-compatible.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/status.h"
#include "convolution/report_format.h"

namespace ucudnn::command {

// Parses a report. Ignores unknown members. If a value is wrong, the error names its place, such as
// "kernels[3].plan[0].count", and says what was expected.
Result<RunReport> ParseReport(const std::string& json);

// Reads and parses a file; errors begin with its name.
Result<RunReport> ReadReport(const std::string& path);

// The times of a rank's timed step, and of the exchanges and sums in that step.
struct StepTimes {
  double step_ms = 0;
  double exchange_ms = 0, sum_ms = 0;
  double exposed_exchange_ms = 0, exposed_sum_ms = 0;  // how long calls wait for them
  std::optional<size_t> worst;  // index of the kernel whose calls wait longest for exchanges
};
StepTimes StepTimesOf(const RankEntry& rank);

// Adds the ranks of `more`, the split job of another report, to `job`. Fails, with the reason, if
// the two reports cannot be of one job.
Status JoinSplitJob(SplitJob more, SplitJob& job);

}  // namespace ucudnn::command
