// Reports as values, and the members of their JSON (db/FORMAT.md): of a run (`ucudnn-report`),
// which the process writes that runs, and offline plans (`ucudnn-workspace-table`), which `ucudnn
// workspace --json` prints. `ucudnn report`, `--trace` and `doctor` read them. Others may have
// written a file: readers check every value. Thread-compatible.
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

// An axis with more parts is left out, because its owned and needed positions concern many ranks.
constexpr size_t kMostAxisParts = 64;

// The positions of the exchanged tensor that each part of a cut axis owns, and those that it reads.
struct SplitAxis {
  char letter = 'h';
  std::vector<Interval> owned, needed;

  void Members(json::Object& member);
};

// A decision about a kernel, as a run reports it.
struct KernelRecord {
  ConvolutionProblem problem;
  EngineId asked;                     // engine that the program named; empty offline
  std::optional<size_t> limit_bytes;  // limit that the kernel was planned under
  size_t workspace_bytes = 0;         // part of the caller's workspace that it uses
  size_t owned_workspace_bytes = 0;   // part of ucudnn's own workspace that it uses
  Configuration configuration;        // what runs; a single piece if undivided
  // The fastest engines within the limit that take the whole mini-batch in one piece, of the
  // program's API and of any API; no engine: none is known. Offline there is only the latter. A
  // time that is unknown is negative.
  MicroConfiguration undivided, best_undivided;
  std::string reason;
  std::string api;  // legacy, graph, or empty
  int steps = 0;    // that a call enqueues (Schedule::Steps); 0 if undivided

  bool operator==(const KernelRecord&) const = default;
};

// Returns the time of an engine; none if there is no engine, or its time is unknown.
std::optional<double> KnownTime(const MicroConfiguration& micro);

struct ReportedKernel : KernelRecord {
  std::vector<std::string> layers;  // names that the program gave
  std::string name;                 // name of its layer, or of its layers; empty: none
  int64_t calls = 0;                // none offline
  int64_t undivided_calls = 0;  // the part of `calls` that ran undivided although the plan divides
  uint64_t lanes = 0;           // a bit for each lane that it ran on; none: unknown
  Division division = Configuration{};  // the configuration, with its tiles; no runs: unknown
  std::optional<double> plan_ms;        // time of the whole mini-batch; none: not measured
  // In ascending order of workspace and descending order of time; empty: not there.
  std::vector<Division> desirable_set;
  // For an offline plan: kernels with the same segment share workspace.
  std::optional<int64_t> segment;
  int64_t copies = 1;  // copies of its segment: one for each lane

  void Members(json::Object& member, bool offline);

  bool divided() const { return division.configuration.Pieces() > 1; }
  size_t all_workspace_bytes() const { return workspace_bytes + owned_workspace_bytes; }
  // Return the milliseconds of `undivided` and of `best_undivided`. In a run, the configuration
  // itself may be either of them.
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
  std::optional<size_t> total_bytes;  // the user's budget; none: there is none
  size_t planned_bytes = 0;           // the bytes that were divided; less if the device has less
  std::string division;               // how it is divided; empty: unknown
  bool divided = false;               // false: the network is not known yet
  size_t kernels = 0;                 // number of kernels with a share
  // The bytes that ucudnn holds on the device, or that an offline plan reserves; none: unknown.
  std::optional<size_t> total_workspace_bytes;
  size_t capture_bytes = 0;  // the part of them that is reserved for captured graphs
  std::string solver;        // empty: nothing was solved, or unknown
  // Proven by the solver, or not; none: a workspace plan defines the shares.
  std::optional<bool> optimal;
  std::vector<ReportedBudget> other_devices;  // that hold memory, too

  void Members(json::Object& member);
  bool empty() const { return !total_bytes; }
};

// The times of one call, averaged over the timed calls.
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

// A list of what it is, when it begins and how long it is.
struct StepSpanEntry {
  StepSpan span = StepSpan::kCall;
  double begin_ms = 0, length_ms = 0;

  std::string Write(int depth);
  void Read(const JsonPlace& place);
};

struct StepCallEntry {
  size_t kernel = 0;  // index among the rank's kernels
  std::vector<StepSpanEntry> spans;

  void Members(json::Object& member, size_t kernels);
};

struct StepEntry {
  int64_t number = 0;  // number of the step that was timed; 0: none
  std::vector<StepCallEntry> calls;

  void Members(json::Object& member, size_t kernels);
  bool empty() const { return number == 0; }
};

// One rank.
struct RankEntry {
  int rank = 0;
  std::string source;     // the file that it was read from
  std::string device;     // of the file
  std::string transport;  // empty: no exchange was opened yet
  std::string library;    // the transport's library and its version; empty if it has none
  int64_t calls = 0;      // split, refused and replicated calls
  size_t owned_bytes = 0;
  uint64_t unlisted_calls = 0;  // calls of kernels beyond the listed ones
  std::vector<SplitKernelEntry> kernels;
  StepEntry step;

  void Members(json::Object& member, const SpatialGrid& grid);
};

// Calls that were refused by name, without a kernel.
struct RefusedEntry {
  std::string what;
  int64_t count = 0;

  void Members(json::Object& member);
};

struct SplitJob {
  SpatialGrid grid;
  int rank = 0, size = 1;        // rank -1: the ranks are threads of one process, all together
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
  std::string mode;                 // for a run
  std::string policy;               // for an offline plan
  std::optional<int64_t> measured;  // measurements that the run made
  std::optional<size_t> limit_bytes;
  ReportedBudget budget;  // one for all kernels
  // Offline: the driver's version, how much faster another division may be (0 if it is proven
  // optimal), the time of all kernels, and the limit of each kernel that is not divided.
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
