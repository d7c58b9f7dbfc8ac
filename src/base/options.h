// What the user asked for: every UCUDNN_ variable, parsed once per process. Nothing else in the
// library reads the environment. The parser is a pure function that the command line shares, whose
// options set the same variables. ProcessOptions() is thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/spatial_options.h"
#include "base/status.h"

namespace ucudnn {

enum class Mode { kOn, kObserve, kOff };
// Whose engines may serve a call. kLegacy forwards the graph API. kGraph divides legacy calls with
// graph engines only; their own algorithms run undivided.
enum class EngineSet { kLegacy, kGraph, kBoth };
enum class BatchSizePolicy { kAuto, kUndivided, kPowerOfTwo, kAll };
// How kernels share one workspace budget. kDisjoint: each has a segment of its own. kShared:
// kernels that run one after the other share one. kConcurrent: as kShared, with a segment for each
// stream.
enum class WorkspaceDivision { kDisjoint, kShared, kConcurrent };
enum class Solver { kExact, kGlpk };

// When kernels are measured, and how much measuring may take.
struct Tuning {
  bool on = true;
  // Callers that ask about a kernel wait until it is measured. Otherwise they are told what the
  // real library's heuristics know, and better plans come later inside that.
  bool before_promising = true;
  long after_calls = 2;  // of a kernel that nobody asked about, before it is measured
  double kernel_seconds = 2;
  double process_seconds = 60;
  std::optional<size_t> memory_bytes;  // of the device; none: a quarter of what is free
};

// Devices of this host that are measured on in parallel, by the driver's numbers.
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
  bool workspace_limit_auto = false;      // it is taken from free memory
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
  // The first is written, the others are only read; empty: no store.
  std::vector<std::string> stores;
  std::string report;  // path of the JSON report, %p is the process id; empty: none
  // Whether a terminal, where stderr is one, can rewrite its lines (TERM).
  bool rewrites_lines = false;
  LogLevel log_level = LogLevel::kWarn;
  std::string log_file;     // empty: stderr
  std::string real_cudnn;   // path of the real library; empty: it is searched for
  std::string lock_folder;  // where processes of this host lock a file for each device
  int rank = -1;            // of this process in its job, by the launcher's variables; -1: none
  SpatialOptions spatial;
  // Where `ucudnn run --ranks`, which started this process, listens (base/launcher_note.h); empty:
  // it did not start it.
  std::string launcher_socket;
};

// Whether the process runs convolutions, or only plans.
enum class Use { kRunning, kPlanning };

// One variable: its names, the command-line option that sets it, the values it takes.
struct Variable {
  const char* name;
  const char* old_name;  // of earlier releases; null: none
  const char* flag;      // command-line option without dashes; null: none
  bool is_switch;        // the option takes no value and means "1"
  const char* accepted;  // in words, for messages
  const char* help;
  // An error says why the value is refused, without naming the variable.
  Status (*Apply)(std::string_view value, Options& options);
};

std::span<const Variable> Variables();

// Reads all variables through `lookup`. An unreadable value keeps the default and adds a line to
// `warnings` that names the variable, the value and what is accepted; one that is about splitting
// refuses to run (`spatial.refusal`).
Options ParseOptions(const VariableLookup& lookup, std::vector<std::string>& warnings,
                     Use use = Use::kRunning);

// The same of this process's environment. Variables that ucudnn does not know are warnings, too,
// or the refusal. Where nothing runs, what would be refused is a warning.
Options OptionsOfEnvironment(std::vector<std::string>& warnings, Use use);

// The variable of this name, old ones too; null when there is none.
const Variable* FindVariable(std::string_view name);

// This process's options: the environment as it was at the first call, and what was set since. The
// first call configures the log. A returned reference stays valid, and its values never change.
const Options& ProcessOptions();

// Sets a variable as the environment could have, for callers that ask for the options from now on.
// Thread-safe.
Status SetProcessOption(const Variable& variable, std::string_view value);

}  // namespace ucudnn
