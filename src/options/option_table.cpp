// The table of variables: which values each variable accepts, and how a value changes the options.
// The functions keep no state; each Apply function sets members of `options`.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"
#include "options/options.h"
#include "options/spatial_options.h"

namespace ucudnn {
namespace {

// Sets `out` to values[i] if `text` is names[i], in upper or lower case.
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

Status ApplyTiles(std::string_view text, Options& options) {
  return ParseChoice(text, {"auto", "off"}, {true, false}, options.tiles);
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

// Parses a number that is not negative and not infinite. If T is an integer type, the number must
// be whole.
template <typename T>
Status ParseNumber(std::string_view text, T& out) {
  if (!ReadNumber(text, out) || !(out >= 0) || !std::isfinite(static_cast<double>(out))) {
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

// Returns only the reason from a message of SpatialGrid::Parse. The message also has the value
// before the reason and the expected form after it, but callers add these themselves.
std::string WhyNoGrid(const std::string& message) {
  constexpr std::string_view kBefore = " is not a spatial grid: ", kBehind = "; expected ";
  const size_t before = message.find(kBefore), behind = message.rfind(kBehind);
  if (before == std::string::npos || behind == std::string::npos) return message;
  const size_t from = before + kBefore.size();
  return from < behind ? message.substr(from, behind - from) : message;
}

Status ApplySpatial(std::string_view text, Options& options) {
  const Result<SpatialGrid> grid = SpatialGrid::Parse(text);
  if (!grid.ok()) return Status::Error(WhyNoGrid(grid.message()));
  options.spatial.grid = *grid;
  return Status::Ok();
}

Status ApplyRendezvous(std::string_view text, Options& options) {
  UCUDNN_ASSIGN_OR_RETURN(options.spatial.rendezvous, RendezvousAddress::Parse(text));
  options.spatial.rendezvous_given = true;
  return Status::Ok();
}

Status ApplyRendezvousToken(std::string_view text, Options& options) {
  constexpr size_t kLongest = 256;
  const bool printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (text.empty() || text.size() > kLongest || !printable) return Status::Error("no token");
  options.spatial.token = text;
  return Status::Ok();
}

Status ApplySpatialTimeout(std::string_view text, Options& options) {
  constexpr double kLongest = 1e6;
  double seconds = 0;
  UCUDNN_RETURN_IF_ERROR(ParseNumber(Trim(text), seconds));
  if (seconds <= 0) return Status::Error("no time in which a rank could come");
  if (seconds > kLongest) return Status::Error("longer than a million seconds");
  options.spatial.timeout_seconds = seconds;
  return Status::Ok();
}

Status ApplySpatialAgree(std::string_view text, Options& options) {
  return ParseChoice(text, {"first", "each"}, {SpatialAgreement::kFirst, SpatialAgreement::kEach},
                     options.spatial.agree);
}

Status ApplySpatialReduce(std::string_view text, Options& options) {
  SpatialReduction reduction{};
  UCUDNN_RETURN_IF_ERROR(ParseChoice(text, {"all", "none"},
                                     {SpatialReduction::kAll, SpatialReduction::kNone}, reduction));
  options.spatial.reduce = reduction;
  return Status::Ok();
}

Status ApplySpatialOne(std::string_view text, Options& options) {
  SpatialOnes ones{};
  UCUDNN_RETURN_IF_ERROR(ParseChoice(text, {"split", "replicated"},
                                     {SpatialOnes::kSplit, SpatialOnes::kReplicated}, ones));
  options.spatial.ones = ones;
  return Status::Ok();
}

Status ApplySpatialTransport(std::string_view text, Options& options) {
  return ParseChoice(text, {"auto", "nccl", "peer", "loopback"},
                     {Transport::kAuto, Transport::kNccl, Transport::kPeer, Transport::kLoopback},
                     options.spatial.transport);
}

constexpr Variable kVariables[] = {
    {"UCUDNN_MODE", nullptr, nullptr, false, "on, observe, off",
     "observe records and never changes a call; off forwards everything", ApplyMode},
    {"UCUDNN_BATCH_SIZE_POLICY", nullptr, "policy", false, "auto, undivided, powerOfTwo, all",
     "micro-batch sizes that are measured", ApplyPolicy},
    {"UCUDNN_TILES", nullptr, "tiles", false, "auto, off",
     "whether a single image that does not fit may run as tiles", ApplyTiles},
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
     "the cuDNN API whose engines may serve a call", ApplyEngines},
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
    {"UCUDNN_SPATIAL", nullptr, "spatial", false, kSpatialGridForm,
     "split images over ranks: each process holds a stripe of every image", ApplySpatial},
    {"UCUDNN_SPATIAL_TIMEOUT", nullptr, nullptr, false, "seconds above 0",
     "time after which a rank that does not come is an error on all", ApplySpatialTimeout},
    {"UCUDNN_SPATIAL_AGREE", nullptr, nullptr, false, "first, each",
     "when ranks gather their extents: at a kernel's first call, or at each", ApplySpatialAgree},
    {"UCUDNN_SPATIAL_REDUCE", nullptr, nullptr, false, "all, none",
     "whether filter gradients are summed over the ranks of a group", ApplySpatialReduce},
    {"UCUDNN_SPATIAL_ONE", nullptr, nullptr, false, "split, replicated",
     "what maps of extent 1 on every rank are", ApplySpatialOne},
    {"UCUDNN_SPATIAL_TRANSPORT", nullptr, nullptr, false, "auto, nccl, peer, loopback",
     "how rows travel between ranks", ApplySpatialTransport},
    {"UCUDNN_RENDEZVOUS", nullptr, nullptr, false, "tcp://HOST:PORT or file:PATH",
     "where ranks meet", ApplyRendezvous},
    {"UCUDNN_RENDEZVOUS_TOKEN", nullptr, nullptr, false,
     "up to 256 characters without spaces, the same on all ranks",
     "the job's secret, without which ranks of other hosts are refused", ApplyRendezvousToken},
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

}  // namespace

std::span<const Variable> Variables() { return kVariables; }

const Variable* FindVariable(std::string_view name) {
  for (const Variable& variable : kVariables) {
    if (name == variable.name) return &variable;
    if (variable.old_name != nullptr && name == variable.old_name) return &variable;
  }
  return nullptr;
}

}  // namespace ucudnn
