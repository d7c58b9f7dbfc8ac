// What the user asked for: every UCUDNN_ variable, parsed once per process. This is the library's
// only reader of the environment. The parser is a pure function, shared with the command line,
// whose options set the same variables. ProcessOptions() is thread-safe.
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

namespace ucudnn {

enum class Mode { kOn, kObserve, kOff };
// Whose engines may serve a call. kLegacy leaves the graph API to the genuine library alone;
// kGraph divides a legacy call with graph engines only, and its own algorithms run undivided.
enum class EngineSet { kLegacy, kGraph, kBoth };
enum class BatchSizePolicy { kAuto, kUndivided, kPowerOfTwo, kAll };
// How kernels share one workspace budget: each has its own segment; those that run one after the
// other share one; those seen on different streams have segments of their own.
enum class WorkspaceDivision { kDisjoint, kShared, kConcurrent };
enum class Solver { kExact, kGlpk };

// When kernels are measured, and what measuring may take.
struct Tuning {
  bool on = true;
  // A caller that asks what a kernel needs waits for it to be measured; otherwise it is told what
  // the genuine library's heuristics know, and better plans come later inside that.
  bool before_promising = true;
  long after_calls = 2;  // calls of a kernel that nobody asked about before it is measured
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
  std::optional<size_t> workspace_limit;  // bytes per kernel; none: `caller` or `auto`
  bool workspace_limit_auto = false;      // the limit comes from free memory
  std::optional<size_t> total_workspace;  // bytes for all kernels together; none: each has its own
  WorkspaceDivision division = WorkspaceDivision::kConcurrent;
  Solver solver = Solver::kExact;
  bool strict_limit = false;  // a kernel over the limit fails
  Tuning tuning;
  bool deterministic = false;
  EngineSet engines = EngineSet::kBoth;
  std::string plan;  // path of a pinned plan; empty: none
  BenchmarkDevices benchmark_devices;
  bool check = false;                  // every call is compared with the undivided one
  std::vector<std::string> databases;  // the first is written, the rest are read; empty: none
  std::string report;                  // JSON report path, %p is the process id; empty: none
  LogLevel log_level = LogLevel::kWarn;
  std::string log_file;     // empty: stderr
  std::string real_cudnn;   // path of the genuine library; empty: found by itself
  std::string lock_folder;  // of files that processes on this host lock, one for each device
  int rank = -1;            // of this process in its job, from the launcher's variables; -1: none
};

// Who reads the variables: a process that runs convolutions, or one that plans offline.
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

// Reads all variables through `lookup` (null when unset). An unreadable value keeps the default and
// adds a line to `warnings` that names the variable, the value and what is accepted.
Options ParseOptions(const std::function<const char*(const char*)>& lookup,
                     std::vector<std::string>& warnings, Use use = Use::kRunning);

// The variable of this name, old ones too; null when there is none.
const Variable* FindVariable(std::string_view name);

// This process's options: the environment, read at the first call, and what was set since;
// configures the log. What was returned stays valid and as it is.
const Options& ProcessOptions();

// Sets a variable of this process's options as its environment could have, for who asks for them
// from now on. Thread-safe.
Status SetProcessOption(const Variable& variable, std::string_view value);

}  // namespace ucudnn
