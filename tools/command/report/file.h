// Reports read back: a run's (`ucudnn-report`) and offline plans (`ucudnn-workspace-table`). The
// files are not ours alone: every value is checked before it is used. Thread-compatible.
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
  std::string name;  // of its layer; empty: the file has none
  ConvolutionProblem problem;
  std::string api;               // legacy, graph, or empty
  std::optional<int64_t> calls;  // none offline
  int64_t undivided_calls = 0;   // those of them that ran undivided although the plan divides
  uint64_t lanes = 0;            // a bit for each that it ran on; none: not known
  EngineId asked;                // that the program named; empty offline
  std::optional<size_t> limit_bytes;
  size_t workspace_bytes = 0;           // the caller's
  size_t owned_workspace_bytes = 0;     // ucudnn's own
  Division division = Configuration{};  // no runs: not known
  std::optional<double> plan_ms;        // of the whole mini-batch; none: not measured
  // The fastest within the limit, of the API that the program calls and of any API; offline only
  // the latter.
  std::optional<ReportedUndivided> undivided, best_undivided;
  std::string reason;
  std::vector<Division> desirable_set;  // rising workspace, falling time; empty: not there
  std::optional<int64_t> segment;  // of an offline plan: kernels with the same one share workspace
  int64_t copies = 1;              // of its segment: one for each lane

  bool divided() const { return division.configuration.Pieces() > 1; }
  size_t all_workspace_bytes() const { return workspace_bytes + owned_workspace_bytes; }
  // Milliseconds of `undivided` and of `best_undivided`. In a run either may be the configuration
  // itself.
  std::optional<double> UndividedMs() const;
  std::optional<double> BestUndividedMs(bool offline) const;
};

struct ReportedFallback {
  std::string kernel;
  std::string cause;
  int64_t count = 0;
};

struct RunReport {
  bool offline = false;  // of `ucudnn workspace`: planned, not run
  std::string ucudnn;    // version
  int cudnn = 0;         // 0: unknown
  std::string device;
  std::string mode;                 // of a run
  std::string policy;               // of an offline plan
  std::optional<int64_t> measured;  // measurements that the run made
  std::optional<size_t> limit_bytes;
  std::optional<size_t> total_bytes;            // one budget for all kernels
  std::string division;                         // of that
  std::string solver;                           // who divided it; empty: nobody said
  std::optional<size_t> undivided_limit_bytes;  // offline, of each kernel that is not divided
  std::optional<size_t> reserved_bytes;         // what the division takes
  std::vector<ReportedKernel> kernels;
  std::vector<ReportedFallback> fallbacks;
  std::optional<SplitJob> split;  // none: nothing was split, or an older ucudnn wrote it
};

// Members of other kinds are ignored where nothing here reads them. The error names the value that
// is wrong by its place ("kernels[3].plan[0].count"), and what was expected.
Result<RunReport> ParseReport(const std::string& json);

// The same of a file; errors begin with its name.
Result<RunReport> ReadReport(const std::string& path);

}  // namespace ucudnn::command
