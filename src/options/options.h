// The options that the user sets: every UCUDNN_ variable as it was at the first call of
// ProcessOptions(), with the later changes by SetProcessOption(). Nothing else in the library reads
// the environment. The command line sets the same variables through ParseOptions(), a pure
// function. ProcessOptions() and SetProcessOption() are thread-safe.
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
// Returns the value of UCUDNN_MODE that sets the mode.
const char* ModeName(Mode mode);

// The cuDNN APIs whose engines may run a call. With kLegacy, calls of the graph API are forwarded
// unchanged. With kGraph, divided legacy calls run graph engines only; undivided legacy calls still
// run legacy algorithms.
enum class EngineSet { kLegacy, kGraph, kBoth };
enum class BatchSizePolicy { kAuto, kUndivided, kPowerOfTwo, kAll };
// How kernels share one workspace budget. With kDisjoint, each kernel has its own part of the
// memory. With kShared and kConcurrent, which mean the same, kernels that run one after the other
// on one handle and stream use the same part.
enum class WorkspaceDivision { kDisjoint, kShared, kConcurrent };
enum class Solver { kExact, kGlpk };

// When kernels are measured, and how long measuring may take.
struct Tuning {
  bool on = true;
  // If true, a query about a kernel waits until the kernel is measured. If false, the real
  // library's heuristics answer the query. Both answers are promises that later plans must keep.
  bool before_promising = true;
  // A kernel that was not measured for a query is measured when it has had this number of calls.
  long after_calls = 2;
  double kernel_seconds = 2;
  double process_seconds = 60;
  // Device memory for measuring; none: a quarter of the memory that is free.
  std::optional<size_t> memory_bytes;
};

// Devices of this host that measure in parallel, by the driver's ordinals.
struct BenchmarkDevices {
  bool all = false;
  std::vector<int> ordinals;  // if empty: every device if `all`, otherwise the current one

  bool parallel() const { return all || !ordinals.empty(); }
};

const char* BatchSizePolicyName(BatchSizePolicy policy);
const char* EngineSetName(EngineSet engines);
const char* WorkspaceDivisionName(WorkspaceDivision division);

struct Options {
  Mode mode = Mode::kOn;
  BatchSizePolicy policy = BatchSizePolicy::kAuto;
  bool tiles = true;  // whether single images may be computed in tiles
  // Bytes of workspace for each kernel. If there are none, the limit is the workspace that the
  // caller passes or, if workspace_limit_auto is set, a part of the free memory.
  std::optional<size_t> workspace_limit;
  bool workspace_limit_auto = false;      // the limit is taken from free memory
  std::optional<size_t> total_workspace;  // bytes for all kernels; none: no common budget
  WorkspaceDivision division = WorkspaceDivision::kConcurrent;
  Solver solver = Solver::kExact;
  bool strict_limit = false;  // a kernel that would exceed the limit is refused
  Tuning tuning;
  bool deterministic = false;
  EngineSet engines = EngineSet::kBoth;
  std::string workspace_plan;  // path of a workspace plan; empty: none
  BenchmarkDevices benchmark_devices;
  bool check = false;  // every call is compared with the undivided engine
  // Paths of stores. The first one is written, the others are only read; empty: no store.
  std::vector<std::string> stores;
  // Path of the JSON report, in which %p is replaced by the process id; empty: no report.
  std::string report;
  // True if TERM names a terminal that can rewrite lines. Matters only if stderr is a terminal.
  bool rewrites_lines = false;
  LogLevel log_level = LogLevel::kWarn;
  std::string log_file;    // empty: stderr
  std::string real_cudnn;  // path of the real library; empty: it is searched for
  // The folder of the lock files. Processes of this host lock one file for each device.
  std::string lock_folder;
  int rank = -1;  // this process's rank in its job, by the launcher's variables; -1: none
  SpatialOptions spatial;
  // The socket of the `ucudnn run --ranks` that started this process (options/launcher_note.h);
  // empty if another program started it.
  std::string launcher_socket;
};

// Says whether the process runs convolutions or only plans them.
enum class Use { kRunning, kPlanning };

// One variable: its names, the command-line option that sets it, and the values that it accepts.
struct Variable {
  const char* name;
  const char* old_name;  // name in earlier releases; null: none
  const char* flag;      // command-line option without dashes; null: none
  bool is_switch;        // the option takes no value and sets "1"
  const char* accepted;  // the accepted values in words, for messages
  const char* help;
  // Sets the options from `value`. The error says why the value is refused, but does not name the
  // variable.
  Status (*Apply)(std::string_view value, Options& options);
};

std::span<const Variable> Variables();

// Reads all variables through `lookup`. If a value is unreadable, the option keeps its default, and
// `warnings` gets a line with the variable, the value and what is accepted. If the variable is
// about splitting, spatial.faults gets the line instead, and all split calls will be refused.
Options ParseOptions(const VariableLookup& lookup, std::vector<std::string>& warnings,
                     Use use = Use::kRunning);

// Does the same as ParseOptions for this process's environment. Also adds a line to `warnings` or
// spatial.faults for each name that looks like a variable of ucudnn but is none. With
// Use::kPlanning there are no split calls to refuse, so `warnings` gets the faults, too.
Options OptionsOfEnvironment(std::vector<std::string>& warnings, Use use);

// Returns the variable of this name or old name; null if there is none.
const Variable* FindVariable(std::string_view name);

// Returns this process's options: the environment as it was at the first call, with the changes
// that SetProcessOption has made since. The first call configures the log. A returned reference
// stays valid, and its values never change.
const Options& ProcessOptions();

// Sets a variable as if it were in the environment, for later calls of ProcessOptions. The error
// says why `value` is refused. Thread-safe.
Status SetProcessOption(const Variable& variable, std::string_view value);

}  // namespace ucudnn
