#include "base/options.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "base/byte_size.h"
#include "base/text.h"
#include "base/variable_names.h"

namespace ucudnn {
namespace {

// One of `names` (any case), as the value at its position.
template <typename T, size_t N>
Status ParseChoice(std::string_view text, const char* const (&names)[N], const T (&values)[N],
                   T& out) {
  for (size_t i = 0; i < N; ++i) {
    if (EqualsIgnoreCase(Trim(text), names[i])) {
      out = values[i];
      return Status::Ok();
    }
  }
  return Status::Error("not one of the accepted values");
}

Status ParseSwitch(std::string_view text, bool& out) {
  return ParseChoice(text, {"0", "1", "off", "on", "false", "true"},
                     {false, true, false, true, false, true}, out);
}

Status ApplyMode(std::string_view text, Options& options) {
  return ParseChoice(text, {"on", "observe", "off"}, {Mode::kOn, Mode::kObserve, Mode::kOff},
                     options.mode);
}

Status ApplyPolicy(std::string_view text, Options& options) {
  return ParseChoice(text, {"auto", "undivided", "powerOfTwo", "all"},
                     {BatchSizePolicy::kAuto, BatchSizePolicy::kUndivided,
                      BatchSizePolicy::kPowerOfTwo, BatchSizePolicy::kAll},
                     options.policy);
}

Status ApplyWorkspaceLimit(std::string_view text, Options& options) {
  options.workspace_limit_auto = EqualsIgnoreCase(Trim(text), "auto");
  if (options.workspace_limit_auto || EqualsIgnoreCase(Trim(text), "caller")) {
    options.workspace_limit.reset();
    return Status::Ok();
  }
  const Result<size_t> limit = ParseByteSize(text);
  if (!limit.ok()) return Status::Error("not a size");
  options.workspace_limit = *limit;
  return Status::Ok();
}

Status ApplyTotalWorkspace(std::string_view text, Options& options) {
  const Result<size_t> bytes = ParseByteSize(text);
  if (!bytes.ok()) return Status::Error("not a size");
  if (*bytes == 0)
    return Status::Error("no budget; a workspace limit of 0 plans without workspace");
  options.total_workspace = *bytes;
  return Status::Ok();
}

Status ApplyDivision(std::string_view text, Options& options) {
  return ParseChoice(
      text, {"disjoint", "shared", "concurrent"},
      {WorkspaceDivision::kDisjoint, WorkspaceDivision::kShared, WorkspaceDivision::kConcurrent},
      options.division);
}

Status ApplySolver(std::string_view text, Options& options) {
  return ParseChoice(text, {"exact", "glpk"}, {Solver::kExact, Solver::kGlpk}, options.solver);
}

// A whole number or a decimal fraction that is not negative.
template <typename T>
Status ParseNumber(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || !(out >= 0) ||
      !std::isfinite(static_cast<double>(out))) {
    return Status::Error("not a number");
  }
  return Status::Ok();
}

Status ApplyTune(std::string_view text, Options& options) {
  const std::string_view value = Trim(text);
  constexpr std::string_view kAfter = "after:";
  Tuning& tuning = options.tuning;
  if (EqualsIgnoreCase(value.substr(0, kAfter.size()), kAfter)) {
    tuning.on = true;
    tuning.before_promising = false;
    return ParseNumber(value.substr(kAfter.size()), tuning.after_calls);
  }
  tuning.on = EqualsIgnoreCase(value, "first");
  tuning.before_promising = true;
  tuning.after_calls = 0;
  if (tuning.on || EqualsIgnoreCase(value, "off")) return Status::Ok();
  return Status::Error("not one of the accepted values");
}

Status ApplyTuneSeconds(std::string_view text, Options& options) {
  const std::vector<std::string> parts = Split(text, ':');
  if (parts.size() != 2) return Status::Error("not two numbers with a colon between");
  UCUDNN_RETURN_IF_ERROR(ParseNumber(Trim(parts[0]), options.tuning.kernel_seconds));
  return ParseNumber(Trim(parts[1]), options.tuning.process_seconds);
}

Status ApplyTuneMemory(std::string_view text, Options& options) {
  const Result<size_t> bytes = ParseByteSize(text);
  if (!bytes.ok()) return Status::Error("not a size");
  options.tuning.memory_bytes = *bytes;
  return Status::Ok();
}

Status ApplyEngines(std::string_view text, Options& options) {
  return ParseChoice(text, {"legacy", "graph", "both"},
                     {EngineSet::kLegacy, EngineSet::kGraph, EngineSet::kBoth}, options.engines);
}

Status ApplyBenchmarkDevices(std::string_view text, Options& options) {
  BenchmarkDevices devices;
  devices.all = EqualsIgnoreCase(Trim(text), "all");
  if (!devices.all && !EqualsIgnoreCase(Trim(text), "current")) {
    for (const std::string& part : Split(text, ',')) {
      int ordinal = 0;
      if (!ParseNumber(Trim(part), ordinal).ok()) return Status::Error("not a list of numbers");
      std::vector<int>& ordinals = devices.ordinals;
      if (std::find(ordinals.begin(), ordinals.end(), ordinal) != ordinals.end()) {
        return Status::Error("device " + std::to_string(ordinal) + " is named twice");
      }
      ordinals.push_back(ordinal);
    }
  }
  options.benchmark_devices = std::move(devices);
  return Status::Ok();
}

Status ApplyStores(std::string_view text, Options& options) {
  options.stores.clear();
  if (EqualsIgnoreCase(Trim(text), "none")) return Status::Ok();
  for (std::string& path : Split(text, ':')) {
    if (path.empty()) return Status::Error("an empty path between colons");
    options.stores.push_back(std::move(path));
  }
  return Status::Ok();
}

Status ApplyWorkspacePlan(std::string_view text, Options& options) {
  options.workspace_plan = text;
  return Status::Ok();
}

Status ApplyDeterministic(std::string_view text, Options& options) {
  return ParseSwitch(text, options.deterministic);
}

Status ApplyCheck(std::string_view text, Options& options) {
  return ParseSwitch(text, options.check);
}

Status ApplyStrictLimit(std::string_view text, Options& options) {
  return ParseSwitch(text, options.strict_limit);
}

Status ApplyReport(std::string_view text, Options& options) {
  options.report = text;
  return Status::Ok();
}

Status ApplyLog(std::string_view text, Options& options) {
  return ParseChoice(text, {"error", "warn", "info", "debug"},
                     {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug},
                     options.log_level);
}

Status ApplyLogFile(std::string_view text, Options& options) {
  options.log_file = text;
  return Status::Ok();
}

Status ApplyRealCudnn(std::string_view text, Options& options) {
  options.real_cudnn = text;
  return Status::Ok();
}

constexpr Variable kVariables[] = {
    {"UCUDNN_MODE", nullptr, nullptr, false, "on, observe, off",
     "observe records and never changes a call; off forwards everything", ApplyMode},
    {"UCUDNN_BATCH_SIZE_POLICY", nullptr, "policy", false, "auto, undivided, powerOfTwo, all",
     "micro-batch sizes that are measured", ApplyPolicy},
    {"UCUDNN_WORKSPACE_LIMIT", "UCUDNN_DEFAULT_WORKSPACE_LIMIT", "workspace-limit", false,
     "caller, auto or a size: bytes, or with KiB, MiB, GiB", "workspace ceiling of each kernel",
     ApplyWorkspaceLimit},
    {"UCUDNN_TOTAL_WORKSPACE", "UCUDNN_TOTAL_WORKSPACE_SIZE", "total-workspace", false,
     "a size above 0: bytes, or with KiB, MiB, GiB",
     "one workspace budget for all kernels; together with --workspace-limit both hold",
     ApplyTotalWorkspace},
    {"UCUDNN_DIVISION", nullptr, "division", false, "disjoint, shared, concurrent",
     "how kernels share that budget: disjoint, a segment for each; shared, concurrent: one for all "
     "that run one after the other, on each handle and stream",
     ApplyDivision},
    {"UCUDNN_SOLVER", nullptr, "solver", false, "exact, glpk",
     "who divides that budget: exact, built in, proven optimal; glpk, a plug-in", ApplySolver},
    {"UCUDNN_ENGINES", nullptr, "engines", false, "legacy, graph, both",
     "whose engines may serve a call", ApplyEngines},
    {"UCUDNN_TUNE", nullptr, nullptr, false, "first, after:N (calls), off",
     "when kernels are measured", ApplyTune},
    {"UCUDNN_TUNE_SECONDS", nullptr, nullptr, false, "two numbers: per kernel:per process",
     "time that measuring may take", ApplyTuneSeconds},
    {"UCUDNN_TUNE_MEMORY", nullptr, nullptr, false, "a size: bytes, or with KiB, MiB, GiB",
     "device memory that measuring may take", ApplyTuneMemory},
    {"UCUDNN_BENCHMARK_DEVICES", nullptr, nullptr, false,
     "current, all, or numbers separated by commas", "devices measured on in parallel",
     ApplyBenchmarkDevices},
    {"UCUDNN_DATABASE", nullptr, "db", false, "none or paths separated by colons",
     "measurement stores: the first is written, the rest are read", ApplyStores},
    {"UCUDNN_WORKSPACE_PLAN", nullptr, "workspace-plan", false,
     "the path of a file that `ucudnn workspace -o` wrote",
     "what each kernel runs, without measuring", ApplyWorkspacePlan},
    {"UCUDNN_DETERMINISTIC", nullptr, "deterministic", true, "0, 1", "only deterministic engines",
     ApplyDeterministic},
    {"UCUDNN_CHECK", nullptr, nullptr, false, "0, 1",
     "compare every call with the undivided one (slow, for debugging)", ApplyCheck},
    {"UCUDNN_STRICT_LIMIT", nullptr, nullptr, false, "0, 1",
     "a kernel that cannot be brought under the limit fails", ApplyStrictLimit},
    {"UCUDNN_REPORT", nullptr, "report", false, "a path, %p is the process id",
     "JSON report of every decision", ApplyReport},
    {"UCUDNN_LOG", nullptr, nullptr, false, "error, warn, info, debug",
     "least important line written", ApplyLog},
    {"UCUDNN_LOG_FILE", nullptr, nullptr, false, "a path", "where lines go instead of stderr",
     ApplyLogFile},
    {"UCUDNN_REAL_CUDNN", nullptr, nullptr, false, "a path", "the real libcudnn.so.9",
     ApplyRealCudnn},
};

// $XDG_CACHE_HOME/ucudnn or ~/.cache/ucudnn; empty when there is no home.
std::string DefaultStore(const std::function<const char*(const char*)>& lookup) {
  const char* cache = lookup("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/ucudnn/measurements.db";
  const char* home = lookup("HOME");
  if (home != nullptr && home[0] == '/') {
    return std::string(home) + "/.cache/ucudnn/measurements.db";
  }
  return {};
}

std::string LockFolder(const std::function<const char*(const char*)>& lookup) {
  const char* runtime = lookup("XDG_RUNTIME_DIR");
  return runtime != nullptr && runtime[0] == '/' ? runtime : "/tmp";
}

int RankOfJob(const std::function<const char*(const char*)>& lookup) {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* text = lookup(name);
    if (text == nullptr) continue;
    int rank = -1;
    const std::string_view view(text);
    const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), rank);
    if (error == std::errc() && end == view.data() + view.size() && rank >= 0) return rank;
  }
  return -1;
}

bool RewritesLines(const char* terminal) {
  return terminal != nullptr && terminal[0] != '\0' && std::string_view(terminal) != "dumb";
}

// `auto` looks for the sizes that are best under one limit, but a budget needs rows for every
// possible share.
void FitPolicyToBudget(Use use, Options& options) {
  const bool shares = use == Use::kRunning && options.total_workspace;
  if (shares && options.policy == BatchSizePolicy::kAuto) {
    options.policy = BatchSizePolicy::kPowerOfTwo;
  }
}

// Values that were replaced are never freed, because callers hold references to them.
struct ProcessValues {
  Options options;
  const ProcessValues* before = nullptr;
};
std::atomic<const ProcessValues*> process_values = nullptr;  // null: not read yet

}  // namespace

const char* BatchSizePolicyName(BatchSizePolicy policy) {
  switch (policy) {
    case BatchSizePolicy::kAuto:
      return "auto";
    case BatchSizePolicy::kUndivided:
      return "undivided";
    case BatchSizePolicy::kPowerOfTwo:
      return "powerOfTwo";
    case BatchSizePolicy::kAll:
      return "all";
  }
  return "";
}

const char* EngineSetName(EngineSet engines) {
  switch (engines) {
    case EngineSet::kLegacy:
      return "legacy";
    case EngineSet::kGraph:
      return "graph";
    case EngineSet::kBoth:
      return "both";
  }
  return "";
}

const char* WorkspaceDivisionName(WorkspaceDivision division) {
  switch (division) {
    case WorkspaceDivision::kDisjoint:
      return "disjoint";
    case WorkspaceDivision::kShared:
      return "shared";
    case WorkspaceDivision::kConcurrent:
      return "concurrent";
  }
  return "";
}

std::span<const Variable> Variables() { return kVariables; }

Options ParseOptions(const std::function<const char*(const char*)>& lookup,
                     std::vector<std::string>& warnings, Use use) {
  Options options;
  options.rank = RankOfJob(lookup);
  options.lock_folder = LockFolder(lookup);
  options.rewrites_lines = RewritesLines(lookup("TERM"));
  if (std::string path = DefaultStore(lookup); !path.empty()) {
    options.stores.push_back(std::move(path));
  }
  for (const Variable& variable : kVariables) {
    const char* name = variable.name;
    const char* value = lookup(name);
    if (value == nullptr && variable.old_name != nullptr) {
      name = variable.old_name;
      value = lookup(name);
    }
    if (value == nullptr || value[0] == '\0') continue;
    Options changed = options;
    if (Status status = variable.Apply(value, changed); status.ok()) {
      options = std::move(changed);
    } else {
      warnings.push_back(std::string(name) + "='" + value + "' is ignored: " + status.message() +
                         " (accepted: " + variable.accepted + ")");
    }
  }
  FitPolicyToBudget(use, options);
  return options;
}

const Variable* FindVariable(std::string_view name) {
  for (const Variable& variable : kVariables) {
    if (name == variable.name) return &variable;
    if (variable.old_name != nullptr && name == variable.old_name) return &variable;
  }
  return nullptr;
}

Options OptionsOfEnvironment(std::vector<std::string>& warnings, Use use) {
  Options options = ParseOptions([](const char* name) { return std::getenv(name); }, warnings, use);
  for (std::string& line : UnknownVariables(environ)) warnings.push_back(std::move(line));
  return options;
}

const Options& ProcessOptions() {
  // No lock is held while reading, because a child forked meanwhile would wait for it for ever.
  if (const auto* const values = process_values.load(std::memory_order_acquire)) {
    return values->options;
  }
  std::vector<std::string> warnings;
  const auto* const mine = new ProcessValues{OptionsOfEnvironment(warnings, Use::kRunning)};
  const ProcessValues* expected = nullptr;
  if (!process_values.compare_exchange_strong(expected, mine, std::memory_order_acq_rel)) {
    delete mine;
    return expected->options;
  }
  const Options& options = mine->options;
  ConfigureLog(options.log_level, options.log_file, options.rank);
  for (const std::string& warning : warnings) WarnOnce(warning, warning);
  return options;
}

Status SetProcessOption(const Variable& variable, std::string_view value) {
  while (true) {
    (void)ProcessOptions();
    const ProcessValues* current = process_values.load(std::memory_order_acquire);
    const Options& before = current->options;
    auto changed = std::make_unique<ProcessValues>(ProcessValues{before, current});
    UCUDNN_RETURN_IF_ERROR(variable.Apply(value, changed->options));
    FitPolicyToBudget(Use::kRunning, changed->options);
    if (!process_values.compare_exchange_strong(current, changed.get())) continue;
    const Options& now = changed.release()->options;
    if (now.log_level != before.log_level || now.log_file != before.log_file) {
      ConfigureLog(now.log_level, now.log_file, now.rank);
    }
    return Status::Ok();
  }
}

}  // namespace ucudnn
