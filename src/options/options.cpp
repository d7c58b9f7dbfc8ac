#include "options/options.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "base/text.h"
#include "options/launcher_note.h"
#include "options/variable_names.h"

namespace ucudnn {

const char* ModeName(Mode mode) {
  switch (mode) {
    case Mode::kOn:
      return "on";
    case Mode::kObserve:
      return "observe";
    case Mode::kOff:
      return "off";
  }
  return "";
}

namespace {

// Returns $XDG_CACHE_HOME/ucudnn/measurements.db or, if XDG_CACHE_HOME is not an absolute path,
// ~/.cache/ucudnn/measurements.db. Returns an empty text if HOME is no absolute path either.
std::string DefaultStore(const VariableLookup& lookup) {
  const char* cache = lookup("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/ucudnn/measurements.db";
  const char* home = lookup("HOME");
  if (home != nullptr && home[0] == '/') {
    return std::string(home) + "/.cache/ucudnn/measurements.db";
  }
  return {};
}

std::string LockFolder(const VariableLookup& lookup) {
  const char* runtime = lookup("XDG_RUNTIME_DIR");
  return runtime != nullptr && runtime[0] == '/' ? runtime : "/tmp";
}

bool RewritesLines(const char* terminal) {
  return terminal != nullptr && terminal[0] != '\0' && std::string_view(terminal) != "dumb";
}

// Under a budget, replaces the policy `auto` by powerOfTwo: `auto` measures only the micro-batches
// that are best under one limit, but a budget needs measurements for every possible share.
void FitPolicyToBudget(Use use, Options& options) {
  const bool shares = use == Use::kRunning && options.total_workspace;
  if (shares && options.policy == BatchSizePolicy::kAuto) {
    options.policy = BatchSizePolicy::kPowerOfTwo;
  }
}

// Sets options that depend on several variables.
void Conclude(Use use, Options& options) {
  FitPolicyToBudget(use, options);
  ConcludeSpatial(options.mode == Mode::kOn ? nullptr : ModeName(options.mode), options.spatial);
}

void AddUnreadable(const char* name, const std::string& value, const std::string& why,
                   const Variable& variable, Options& options, std::vector<std::string>& warnings) {
  const std::string accepted = " (accepted: " + std::string(variable.accepted) + ")";
  if (!IsSpatialVariable(name)) {
    warnings.push_back(std::string(name) + "='" + value + "' is ignored: " + why + accepted);
    return;
  }
  const std::string shown = IsSecretVariable(name) ? std::string() : "=" + Quoted(value);
  options.spatial.faults.push_back(name + shown + ": " + why + accepted);
}

// The options of the process. `before` is the object with the options before the latest change.
// Objects are never freed, because callers hold references to their options.
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

Options ParseOptions(const VariableLookup& lookup, std::vector<std::string>& warnings, Use use) {
  Options options;
  options.spatial.launcher = ReadLauncher(lookup);
  options.rank = options.spatial.launcher.rank;
  if (const char* socket = lookup(kLauncherSocketVariable)) options.launcher_socket = socket;
  options.lock_folder = LockFolder(lookup);
  options.rewrites_lines = RewritesLines(lookup("TERM"));
  if (std::string path = DefaultStore(lookup); !path.empty()) {
    options.stores.push_back(std::move(path));
  }
  for (const Variable& variable : Variables()) {
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
      AddUnreadable(name, value, status.message(), variable, options, warnings);
    }
  }
  Conclude(use, options);
  return options;
}

Options OptionsOfEnvironment(std::vector<std::string>& warnings, Use use) {
  Options options = ParseOptions([](const char* name) { return std::getenv(name); }, warnings, use);
  for (std::string& line : UnknownVariables(environ)) warnings.push_back(std::move(line));
  for (std::string& line : UnknownSpatialVariables(environ)) {
    options.spatial.faults.push_back(std::move(line));
  }
  Conclude(use, options);
  if (use == Use::kPlanning) {
    for (const std::string& line : options.spatial.faults) warnings.push_back(line);
  }
  return options;
}

const Options& ProcessOptions() {
  // No lock is held while the environment is read. Otherwise a child that is forked during that
  // time would wait for the lock forever.
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
    Conclude(Use::kRunning, changed->options);
    if (!process_values.compare_exchange_strong(current, changed.get())) continue;
    const Options& now = changed.release()->options;
    if (now.log_level != before.log_level || now.log_file != before.log_file) {
      ConfigureLog(now.log_level, now.log_file, now.rank);
    }
    return Status::Ok();
  }
}

}  // namespace ucudnn
