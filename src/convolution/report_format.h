// Reports as values, and the members of their JSON (db/FORMAT.md). A running process writes the
// report of the run (`ucudnn-report`); `ucudnn workspace --json` prints an offline plan
// (`ucudnn-workspace-table`). `ucudnn report`, `ucudnn doctor` and the option `--trace` read both
// formats. Other programs may write such files, so readers check every value. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_place.h"
#include "base/spatial_grid.h"
#include "convolution/configuration.h"
#include "convolution/partition.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"

namespace ucudnn {
namespace json {
class Object;
}  // namespace json

// Reports leave out an axis with more parts than this, because the axis's `owned` and `needed` list
// an interval for each part.
constexpr size_t kMostAxisParts = 64;

// Intervals of the exchanged tensor along a cut axis: what each part owns, and what it reads.
struct SplitAxis {
  char letter = 'h';
  std::vector<Interval> owned, needed;

  void Members(json::Object& member);
};

// The decision about a kernel, as a run or an offline plan reports it.
struct KernelRecord {
  ConvolutionProblem problem;
  EngineId asked;                     // engine that the program named; empty in an offline plan
  std::optional<size_t> limit_bytes;  // limit that the kernel was planned under
  size_t workspace_bytes = 0;         // part of the caller's workspace that the kernel uses
  size_t owned_workspace_bytes = 0;   // part of ucudnn's own workspace that the kernel uses
  Configuration configuration;        // what runs; a single piece if undivided
  // `undivided` is the fastest engine of the program's API that computes the whole mini-batch in
  // one piece within the limit. `best_undivided` is the fastest such engine of any API. An engine
  // is empty if none is known; an offline plan knows only `best_undivided`. A negative time is
  // unknown.
  MicroConfiguration undivided, best_undivided;
  std::string reason;
  std::string api;  // legacy, graph, or empty
  int steps = 0;    // number of steps that a call enqueues (Schedule::Steps); 0 if undivided

  bool operator==(const KernelRecord&) const = default;
};

// Returns the time of an engine; none if there is no engine, or its time is unknown.
std::optional<double> KnownTime(const MicroConfiguration& micro);

struct ReportedKernel : KernelRecord {
  std::vector<std::string> layers;  // names that the program gave to the kernel's layers
  std::string name;                 // names of the layers, joined; empty: none
  int64_t calls = 0;                // 0 in an offline plan
  int64_t undivided_calls = 0;  // the part of `calls` that ran undivided although the plan divides
  uint64_t lanes = 0;           // bit i is set if lane i ran the kernel; 0: unknown
  Division division = Configuration{};  // no runs: unknown
  std::optional<double> plan_ms;        // time of the whole mini-batch; none: not measured
  // Desirable divisions in ascending order of workspace and descending order of time; empty if the
  // file has none.
  std::vector<Division> desirable_set;
  // Set in an offline plan: kernels with the same segment share workspace.
  std::optional<int64_t> segment;
  int64_t copies = 1;  // copies of the segment: one for each lane

  void Members(json::Object& member, bool offline);

  bool divided() const { return division.configuration.Pieces() > 1; }
  size_t all_workspace_bytes() const { return workspace_bytes + owned_workspace_bytes; }
  // Return the time of `undivided` or of `best_undivided`, in milliseconds; none if it is unknown.
  // If that engine is empty, and `division` is one piece that could be that engine, the time is
  // plan_ms. For UndividedMs the piece's engine must be of the program's API, and for
  // BestUndividedMs `offline` must be false.
  std::optional<double> UndividedMs() const;
  std::optional<double> BestUndividedMs(bool offline) const;

 private:
  void RunMembers(json::Object& member);
  void PlannedMembers(json::Object& member);
};

struct ReportedFallback {
  std::string kernel;
  std::string cause;
  int64_t count = 0;

  void Members(json::Object& member);
};

// One workspace budget for all kernels of a device.
struct ReportedBudget {
  std::optional<size_t> total_bytes;  // the user's budget; none: the user set none
  // The bytes that were divided among kernels: `total_bytes`, or less if the device has less.
  size_t planned_bytes = 0;
  std::string division;  // "disjoint", "shared" or "concurrent"; empty: unknown
  bool divided = false;  // false: the network is not known yet
  size_t kernels = 0;    // number of kernels with a share
  // The bytes that ucudnn holds on the device, or that an offline plan reserves; none: unknown.
  std::optional<size_t> total_workspace_bytes;
  // The part of total_workspace_bytes that is reserved for captured graphs.
  size_t capture_bytes = 0;
  std::string solver;  // empty: nothing was solved, or unknown
  // True if the solver has proven that its division is optimal; none if a workspace plan defines
  // the shares.
  std::optional<bool> optimal;
  std::vector<ReportedBudget> other_devices;  // budgets of other devices that hold memory

  void Members(json::Object& member);
  bool empty() const { return !total_bytes; }
};

// Milliseconds of one call, averaged over the timed calls.
struct SplitTimes {
  int64_t calls = 0;
  double call_ms = 0, own_ms = 0;
  double exchange_ms = 0, exposed_ms = 0, hidden_ms = 0;
  double sum_ms = 0, exposed_sum_ms = 0;

  void Members(json::Object& member);
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

  void Members(json::Object& member, const SpatialGrid& grid);

  size_t moved_bytes() const { return sent_bytes + received_bytes; }
  size_t least_bytes() const { return least_sent_bytes + least_received_bytes; }
};

// A part of a timed call on a stream.
enum class StepSpan : uint8_t { kCall, kOwn, kExchange, kAwaitExchange, kSum, kAwaitSum };

// Written as a list of the span's name, its begin and its length.
struct StepSpanEntry {
  StepSpan span = StepSpan::kCall;
  double begin_ms = 0, length_ms = 0;

  std::string Write(int depth);
  void Read(const JsonPlace& place);
};

struct StepCallEntry {
  size_t kernel = 0;  // index in the rank's `kernels`
  std::vector<StepSpanEntry> spans;

  void Members(json::Object& member, size_t kernels);
};

struct StepEntry {
  int64_t number = 0;  // number of the step that was timed; 0: none
  std::vector<StepCallEntry> calls;

  void Members(json::Object& member, size_t kernels);
  bool empty() const { return number == 0; }
};

struct RankEntry {
  int rank = 0;
  std::string source;     // the file that the entry was read from
  std::string device;     // the device that the file names
  std::string transport;  // empty: no exchange was opened yet
  std::string library;    // the transport's library and its version; empty if it has none
  int64_t calls = 0;      // split, refused and replicated calls
  size_t owned_bytes = 0;
  uint64_t unlisted_calls = 0;  // calls of kernels beyond the listed ones
  std::vector<SplitKernelEntry> kernels;
  StepEntry step;

  void Members(json::Object& member, const SpatialGrid& grid);
};

// Calls that were refused because they cannot be split. `what` names the operation and the reason.
struct RefusedEntry {
  std::string what;
  int64_t count = 0;

  void Members(json::Object& member);
};

struct SplitJob {
  SpatialGrid grid;
  // `rank` is -1 if the ranks are threads of one process, whose report lists all of them.
  int rank = 0, size = 1;
  uint64_t calls = 0;            // split, refused and replicated calls
  uint64_t exchanged_bytes = 0;  // received and sent, without sums of gradients
  size_t owned_bytes = 0;        // ucudnn's device memory for exchanges
  std::vector<RankEntry> ranks;  // ranks with a report, by number
  std::vector<RefusedEntry> refused;

  void Members(json::Object& member);
};

struct RunReport {
  bool offline = false;  // from `ucudnn workspace`: planned, not run
  std::string ucudnn;    // version
  int cudnn = 0;         // 0: unknown
  std::string device;
  std::string mode;                 // only in a run
  std::string policy;               // only in an offline plan
  std::optional<int64_t> measured;  // measurements that the run made
  std::optional<size_t> limit_bytes;
  ReportedBudget budget;  // of all kernels together
  // The next four members are for offline plans. `driver` is the version of the CUDA driver. gap_ms
  // is an upper bound on the time that another division could save; it is 0 if this division is
  // proven optimal. total_time_ms is the time of all kernels. undivided_limit_bytes is the limit of
  // a kernel that is not divided.
  int driver = 0;
  double gap_ms = 0;
  double total_time_ms = 0;
  std::optional<size_t> undivided_limit_bytes;
  std::vector<ReportedKernel> kernels;
  std::vector<ReportedFallback> fallbacks;
  std::optional<SplitJob> split;  // none: nothing was split, or an older ucudnn wrote it

  void Members(json::Object& member);

 private:
  void RunMembers(json::Object& member);
  void TableMembers(json::Object& member);
};

}  // namespace ucudnn
