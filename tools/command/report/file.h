// Reads reports: a run's (`ucudnn-report`) and offline plans (`ucudnn-workspace-table`). Others may
// have written the files: every value is checked before it is used. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "command/report/spatial_report.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn::command {

// An engine that takes the whole mini-batch in one piece.
struct ReportedUndivided {
  MicroConfiguration micro;
  std::optional<double> total_ms;  // none: not measured
};

struct ReportedKernel {
  std::string name;  // name of its layer; empty: the file has none
  ConvolutionProblem problem;
  std::string api;               // legacy, graph, or empty
  std::optional<int64_t> calls;  // none offline
  int64_t undivided_calls = 0;   // the part of `calls` that ran undivided although the plan divides
  uint64_t lanes = 0;            // a bit for each lane that it ran on; none: unknown
  EngineId asked;                // engine that the program named; empty offline
  std::optional<size_t> limit_bytes;
  size_t workspace_bytes = 0;           // the caller's
  size_t owned_workspace_bytes = 0;     // ucudnn's own
  Division division = Configuration{};  // no runs: unknown
  std::optional<double> plan_ms;        // time of the whole mini-batch; none: not measured
  // The fastest engines within the limit, of the program's API and of any API; offline only the
  // latter.
  std::optional<ReportedUndivided> undivided, best_undivided;
  std::string reason;
  // In ascending order of workspace and descending order of time; empty: not there.
  std::vector<Division> desirable_set;
  // For an offline plan: kernels with the same segment share workspace.
  std::optional<int64_t> segment;
  int64_t copies = 1;  // copies of its segment: one for each lane

  bool divided() const { return division.configuration.Pieces() > 1; }
  size_t all_workspace_bytes() const { return workspace_bytes + owned_workspace_bytes; }
  // Return the milliseconds of `undivided` and of `best_undivided`. In a run, the configuration
  // itself may be either of them.
  std::optional<double> UndividedMs() const;
  std::optional<double> BestUndividedMs(bool offline) const;
};

struct ReportedFallback {
  std::string kernel;
  std::string cause;
  int64_t count = 0;
};

struct RunReport {
  bool offline = false;  // from `ucudnn workspace`: planned, not run
  std::string ucudnn;    // version
  int cudnn = 0;         // 0: unknown
  std::string device;
  std::string mode;                 // for a run
  std::string policy;               // for an offline plan
  std::optional<int64_t> measured;  // measurements that the run made
  std::optional<size_t> limit_bytes;
  std::optional<size_t> total_bytes;  // one budget for all kernels
  std::string division;               // how it is divided
  std::string solver;                 // the solver that divided it; empty: unknown
  // Offline: the limit of each kernel that is not divided.
  std::optional<size_t> undivided_limit_bytes;
  std::optional<size_t> reserved_bytes;  // workspace that the division takes
  std::vector<ReportedKernel> kernels;
  std::vector<ReportedFallback> fallbacks;
  std::optional<SplitJob> split;  // none: nothing was split, or an older ucudnn wrote it
};

// Parses a report. Unknown members are ignored. The error names the wrong value by its place
// ("kernels[3].plan[0].count"), and what was expected.
Result<RunReport> ParseReport(const std::string& json);

// Reads and parses a file; errors begin with its name.
Result<RunReport> ReadReport(const std::string& path);

}  // namespace ucudnn::command
