// Reads the object `spatial` in the reports of a split job's ranks. Pure functions,
// thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_place.h"
#include "base/spatial_grid.h"
#include "base/status.h"
#include "convolution/partition.h"
#include "convolution/problem.h"

namespace ucudnn::command {

// The times of one call, averaged over the timed calls.
struct SplitTimes {
  int64_t calls = 0;
  double call_ms = 0, own_ms = 0;
  double exchange_ms = 0, exposed_ms = 0, hidden_ms = 0;
  double sum_ms = 0, exposed_sum_ms = 0;
};

// The positions of the exchanged tensor that each part of a cut axis owns, and those that it reads.
struct SplitAxis {
  char letter = 'h';
  std::vector<Interval> owned, needed;
};

struct SplitKernelEntry {
  std::string kind;
  std::string op;
  std::optional<ConvolutionProblem> problem;  // none: a refused call's invalid problem
  std::string common;                         // text of the properties that all ranks share
  std::string verdict, reason;
  int64_t calls = 0, paired_calls = 0;
  size_t sent_bytes = 0, received_bytes = 0;
  size_t least_sent_bytes = 0, least_received_bytes = 0;
  size_t summed_bytes = 0;
  int64_t slices = 1;
  std::vector<SplitAxis> axes;
  std::optional<SplitTimes> times;  // none: no call was timed

  size_t moved_bytes() const { return sent_bytes + received_bytes; }
  size_t least_bytes() const { return least_sent_bytes + least_received_bytes; }
};

enum class StepSpan { kCall, kOwn, kExchange, kAwaitExchange, kSum, kAwaitSum };

struct StepSpanEntry {
  StepSpan span = StepSpan::kCall;
  double begin_ms = 0, length_ms = 0;
};

struct StepCallEntry {
  size_t kernel = 0;  // index among the rank's kernels
  std::vector<StepSpanEntry> spans;
};

// One rank.
struct RankEntry {
  int rank = 0;
  std::string source;  // the file that it was read from
  std::string device;
  std::string transport, library;
  int64_t calls = 0;
  size_t owned_bytes = 0;
  std::vector<SplitKernelEntry> kernels;
  int64_t step_number = 0;  // number of the step that was timed; 0: none
  std::vector<StepCallEntry> step;
};

// The times of a timed step of a rank, of its exchanges and of its sums.
struct StepTimes {
  double step_ms = 0;
  double exchange_ms = 0, sum_ms = 0;
  double exposed_exchange_ms = 0, exposed_sum_ms = 0;  // times that its calls wait
  std::optional<size_t> worst;  // the kernel whose calls wait longest for exchanges
};
StepTimes StepTimesOf(const RankEntry& rank);

struct RefusedEntry {
  std::string what;
  int64_t count = 0;
};

struct SplitJob {
  SpatialGrid grid;
  std::vector<RankEntry> ranks;  // ranks with a report, by number
  std::vector<RefusedEntry> refused;
};

// Returns none if the report has no `spatial`, or the `spatial` of an older ucudnn without
// `tracks`. The place keeps faults.
std::optional<SplitJob> ReadSplitJob(const JsonPlace& spatial);

// Adds another report's ranks. The error says why the two do not belong to one job.
Status JoinSplitJob(SplitJob more, SplitJob& job);

}  // namespace ucudnn::command
