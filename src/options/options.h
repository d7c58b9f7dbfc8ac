// The options that the user sets: every UCUDNN_ variable, parsed once per process. Nothing else in
// the library reads the environment. The command line uses the same parser, a pure function,
// because its options set the same variables. ProcessOptions() is thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "options/spatial_options.h"

namespace ucudnn {

enum class Mode { kOn, kObserve, kOff };
// The engines that may serve a call. kLegacy forwards the graph API. kGraph divides legacy calls
// with graph engines only; the legacy algorithms run undivided.
enum class EngineSet { kLegacy, kGraph, kBoth };
enum class BatchSizePolicy { kAuto, kUndivided, kPowerOfTwo, kAll };
// How kernels share one workspace budget. kDisjoint: each kernel has a segment of its own. kShared:
// kernels that run one after the other share one segment. kConcurrent: kernels of one stream share
// a segment.
enum class WorkspaceDivision { kDisjoint, kShared, kConcurrent };
enum class Solver { kExact, kGlpk };

// When kernels are measured, and how much measuring may take.
struct Tuning {
  bool on = true;
  // If true, callers that ask about a kernel wait until it is measured. If false, they get what the
  // real library's heuristics know, and later plans must fit the promise.
  bool before_promising = true;
  // Calls of a kernel that the program never asked about, before the kernel is measured.
  long after_calls = 2;
  double kernel_seconds = 2;
  double process_seconds = 60;
  // Device memory for measuring; none: a quarter of the free memory.
  std::optional<size_t> memory_bytes;
};

// Devices of this host that measure in parallel, by the driver's numbers.
struct BenchmarkDevices {
  bool all = false;
  std::vector<int> ordinals;  // empty: all, or the current one alone

  bool parallel() const { return all || !ordinals.empty(); }
};

const char* BatchSizePolicyName(BatchSizePolicy policy);
const char* EngineSetName(EngineSet engines);
const char* WorkspaceDivisionName(WorkspaceDivision division);

struct Options {
  Mode mode = Mode::kOn;
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  bool tiles = true;                      // single images may run as tiles
  std::optional<size_t> workspace_limit;  // bytes for each kernel; none: `caller` or `auto`
  bool workspace_limit_auto = false;      // the limit is taken from free memory
  std::optional<size_t> total_workspace;  // bytes for all kernels together; none: each has its own
  WorkspaceDivision division = WorkspaceDivision::kConcurrent;
  Solver solver = Solver::kExact;
  bool strict_limit = false;  // a kernel over the limit fails
  Tuning tuning;
  bool deterministic = false;
  EngineSet engines = EngineSet::kBoth;
  std::string workspace_plan;  // a workspace plan; empty: none
  BenchmarkDevices benchmark_devices;
  bool check = false;  // every call is compared with the undivided one
  // The first store is written, the others are only read; empty: no store.
  std::vector<std::string> stores;
  std::string report;  // path of the JSON report, %p is the process id; empty: none
  // Whether the terminal, if stderr is one, can rewrite its lines (by TERM).
  bool rewrites_lines = false;
  LogLevel log_level = LogLevel::kWarn;
  std::string log_file;    // empty: stderr
  std::string real_cudnn;  // path of the real library; empty: it is searched for
  // The folder in which processes of this host lock a file for each device.
  std::string lock_folder;
  int rank = -1;  // of this process in its job, by the launcher's variables; -1: none
  SpatialOptions spatial;
  // Where the `ucudnn run --ranks` that started this process listens (options/launcher_note.h);
  // empty: another program started it.
  std::string launcher_socket;
};

// Whether the process runs convolutions, or only plans.
enum class Use { kRunning, kPlanning };

// One variable: its names, the command-line option that sets it, the values it takes.
struct Variable {
  const char* name;
  const char* old_name;  // name in earlier releases; null: none
  const char* flag;      // command-line option without dashes; null: none
  bool is_switch;        // the option takes no value and sets "1"
  const char* accepted;  // in words, for messages
  const char* help;
  // Sets the options from `value`. An error says why the value is refused, without naming the
  // variable.
  Status (*Apply)(std::string_view value, Options& options);
};

std::span<const Variable> Variables();

// Reads all variables through `lookup`. An unreadable value keeps the default and adds a line to
// `warnings` that names the variable, the value and what is accepted; if the variable is about
// splitting, it sets `spatial.refusal`.
Options ParseOptions(const VariableLookup& lookup, std::vector<std::string>& warnings,
                     Use use = Use::kRunning);

// ParseOptions for this process's environment. Variables that ucudnn does not know also become
// warnings or, if they are about splitting, the refusal. If nothing runs (Use::kPlanning), a
// refusal becomes a warning.
Options OptionsOfEnvironment(std::vector<std::string>& warnings, Use use);

// Returns the variable of this name, old names included; null if there is none.
const Variable* FindVariable(std::string_view name);

// Returns this process's options: the environment as it was at the first call, and what was set
// since. The first call configures the log. A returned reference stays valid, and its values never
// change.
const Options& ProcessOptions();

// Sets a variable as the environment could have done, for callers that ask for the options from now
// on. Thread-safe.
Status SetProcessOption(const Variable& variable, std::string_view value);

}  // namespace ucudnn
