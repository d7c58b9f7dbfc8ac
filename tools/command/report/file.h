// Reads reports: a run's (`ucudnn-report`) and offline plans (`ucudnn-workspace-table`). Others may
// have written the files: every value is checked before it is used. Thread-compatible.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/status.h"
#include "convolution/report_format.h"

namespace ucudnn::command {

// Parses a report. Unknown members are ignored. The error names the wrong value by its place
// ("kernels[3].plan[0].count"), and what was expected.
Result<RunReport> ParseReport(const std::string& json);

// Reads and parses a file; errors begin with its name.
Result<RunReport> ReadReport(const std::string& path);

// The times of a timed step of a rank, of its exchanges and of its sums.
struct StepTimes {
  double step_ms = 0;
  double exchange_ms = 0, sum_ms = 0;
  double exposed_exchange_ms = 0, exposed_sum_ms = 0;  // times that its calls wait
  std::optional<size_t> worst;  // the kernel whose calls wait longest for exchanges
};
StepTimes StepTimesOf(const RankEntry& rank);

// Adds another report's ranks. The error says why the two do not belong to one job.
Status JoinSplitJob(SplitJob more, SplitJob& job);

}  // namespace ucudnn::command
