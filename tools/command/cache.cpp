// `ucudnn cache`: shows the contents of measurement stores and whether they are sound, adds rows of
// CSV files and of other stores, writes rows to a CSV file, and removes old rows.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/command.h"
#include "command/file_check.h"
#include "command/json.h"
#include "command/numbers.h"
#include "command/offline_kernels.h"
#include "convolution/engine_name.h"
#include "convolution/problem.h"
#include "db/inspection.h"
#include "db/known_rows.h"
#include "db/measurements_csv.h"
#include "db/sqlite_store.h"
#include "options/options.h"

namespace ucudnn::command {
namespace {

struct CacheOptions {
  bool json = false;
  bool dry_run = false;
  std::string file;
  std::vector<std::string> sources;
  std::string device;
  VariableOptions variables;  // for --db
};

int Fail(const CLI::App& app, const std::string& message) { return Refuse(app, message, kFailed); }

void AddPlatform(const planning::Platform& platform, Json& json) {
  json["cudnn"] = platform.cudnn;
  json["driver"] = platform.driver;
  json["device"] = platform.device;
}

Json ToJson(const db::StoredMeasurement& row) {
  const planning::Measurement& measured = row.measurement;
  Json json;
  if (!row.name.empty()) json["name"] = row.name;
  json.update(ProblemJson(row.problem));
  json["op"] = OperationName(row.problem.operation);
  json["engine"] = measured.micro.engine.Text();
  json["micro_batch"] = measured.micro.micro_batch;
  json["piece_ms"] = measured.micro.time_ms;  // time of one micro-batch
  json["workspace_bytes"] = measured.micro.workspace_bytes;
  json["deterministic"] = measured.micro.deterministic;
  AddPlatform(row.platform, json);
  json["samples"] = measured.samples;
  json["verified"] = measured.verified;
  return json;
}

Json ToJson(const planning::EnginePromise& promise) {
  Json json = ProblemJson(promise.problem);
  json["op"] = OperationName(promise.problem.operation);
  json["engine"] = promise.engine.Text();
  json["limit_bytes"] = promise.limit_bytes;
  json["workspace_bytes"] = promise.workspace_bytes;
  json["undivided"] = promise.undivided.empty() ? Json() : Json(promise.undivided.Text());
  json["any_engine"] = promise.any_engine;
  AddPlatform(promise.platform, json);
  return json;
}

// The measurements of one kernel on one platform.
struct Kernel {
  std::string name;
  ConvolutionProblem problem;
  size_t rows = 0;
  size_t verified = 0;
  std::set<EngineId> engines;
  std::set<int> micro_batches;
  MicroConfiguration fastest;  // the fastest engine at the largest micro-batch
};

void Add(const db::StoredMeasurement& row, std::vector<Kernel>& kernels) {
  const ConvolutionProblem family = KernelFamily(row.problem);
  auto kernel = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& known) {
    return KernelFamily(known.problem) == family;
  });
  const MicroConfiguration& micro = row.measurement.micro;
  if (kernel == kernels.end()) {
    kernel = kernels.insert(kernel, {row.name, row.problem, 0, 0, {}, {}, micro});
  }
  kernel->problem.n = std::max(kernel->problem.n, row.problem.n);
  ++kernel->rows;
  kernel->verified += row.measurement.verified ? 1 : 0;
  const MicroConfiguration& fastest = kernel->fastest;
  const bool is_faster =
      fastest.engine.is_auxiliary() || micro.micro_batch > fastest.micro_batch ||
      (micro.micro_batch == fastest.micro_batch && micro.time_ms < fastest.time_ms);
  if (!micro.engine.is_auxiliary() && is_faster) {
    kernel->fastest = micro;
  }
  kernel->engines.insert(row.measurement.micro.engine);
  kernel->micro_batches.insert(row.measurement.micro.micro_batch);
}

std::string RowsText(const db::StoredRows& rows) {
  return Counted(rows.measurements.size(), "measurement") +
         (rows.promises.empty() ? "" : ", " + Counted(rows.promises.size(), "promise"));
}

std::string PlatformText(const std::string& device, int cudnn, int driver) {
  return device + ", cuDNN " + (cudnn == 0 ? "unknown" : CudnnVersion(cudnn)) + ", driver " +
         (driver == 0 ? "unknown" : DriverVersion(driver));
}

void PrintPromise(const planning::EnginePromise& promise) {
  const Operation operation = promise.problem.operation;
  std::cout << "  promised: " << Describe(promise.problem) << "\n    "
            << EngineName(operation, promise.engine) << ", "
            << FormatByteSize(promise.workspace_bytes) << " workspace within "
            << FormatByteSize(promise.limit_bytes) << ", "
            << (promise.undivided.empty() ? "in pieces alone"
                                          : "undivided " + EngineName(operation, promise.undivided))
            << "\n";
}

void PrintRows(const db::StoredRows& rows) {
  using Key = std::tuple<std::string, int, int>;
  const auto key = [](const planning::Platform& platform) {
    return Key{platform.device, platform.cudnn, platform.driver};
  };
  std::map<Key, std::vector<Kernel>> platforms;
  for (const db::StoredMeasurement& row : rows.measurements) {
    Add(row, platforms[key(row.platform)]);
  }
  for (const planning::EnginePromise& promise : rows.promises) platforms[key(promise.platform)];
  for (const auto& [platform, kernels] : platforms) {
    const auto& [device, cudnn, driver] = platform;
    std::cout << PlatformText(device, cudnn, driver) << "\n";
    for (const Kernel& kernel : kernels) {
      std::cout << "  " << (kernel.name.empty() ? "" : kernel.name + ": ")
                << Describe(kernel.problem) << "\n    " << Counted(kernel.rows, "measurement")
                << " of " << Counted(kernel.engines.size(), "engine") << " at "
                << Counted(kernel.micro_batches.size(), "micro-batch") << " up to "
                << *kernel.micro_batches.rbegin() << ", " << kernel.verified << " verified"
                << "\n    fastest at " << kernel.fastest.micro_batch << ": "
                << EngineName(kernel.problem.operation, kernel.fastest.engine) << ", "
                << Milliseconds(kernel.fastest.time_ms) << ", "
                << FormatByteSize(kernel.fastest.workspace_bytes) << " workspace\n";
    }
    for (const planning::EnginePromise& promise : rows.promises) {
      if (key(promise.platform) == platform) PrintPromise(promise);
    }
  }
  std::cout << RowsText(rows) << "\n";
}

// Keeps only the rows of `device`, or all rows if `device` is empty. If there are no rows of
// `device`, fails with an error that lists the devices of the rows.
Status KeepDevice(const std::string& device, std::vector<db::StoredRows*> all) {
  if (device.empty()) return Status::Ok();
  std::set<std::string> devices;
  for (const db::StoredRows* rows : all) {
    for (const auto& row : rows->measurements) devices.insert(row.platform.device);
    for (const auto& promise : rows->promises) devices.insert(promise.platform.device);
  }
  if (!devices.contains(device)) {
    const std::vector<std::string> names(devices.begin(), devices.end());
    return Status::Error("--device '" + device + "': there are no rows of it" +
                         (names.empty() ? "" : ", but of '" + Join(names, "', '") + "'"));
  }
  const auto others = [&](const auto& row) { return row.platform.device != device; };
  for (db::StoredRows* rows : all) {
    std::erase_if(rows->measurements, others);
    std::erase_if(rows->promises, others);
  }
  return Status::Ok();
}

Result<db::StoredRows> ReadAll(const std::vector<std::string>& paths) {
  db::SqliteStore store(paths);
  db::StoredRows rows;
  UCUDNN_ASSIGN_OR_RETURN(rows.measurements, store.List());
  UCUDNN_ASSIGN_OR_RETURN(rows.promises, store.ListPromises());
  return rows;
}

std::string KnownBefore(size_t added, size_t all) {
  return added < all ? ", " + std::to_string(all - added) + " known before" : "";
}

Result<int> Show(const CLI::App& app, const CacheOptions& options,
                 const std::vector<std::string>& paths) {
  Result<db::StoredRows> rows = ReadAll(paths);
  if (!rows.ok()) return Fail(app, rows.message());
  UCUDNN_RETURN_IF_ERROR(KeepDevice(options.device, {&*rows}));
  if (!options.json) {
    PrintRows(*rows);
    return 0;
  }
  const auto to_json = [](const auto& row) { return ToJson(row); };
  std::cout << JsonText({{"format", "ucudnn-cache"},
                         {"version", 2},
                         {"stores", paths},
                         {"measurements", JsonList(rows->measurements, to_json)},
                         {"promises", JsonList(rows->promises, to_json)}});
  return 0;
}

Result<int> Import(const CLI::App& app, const CacheOptions& options,
                   const std::vector<std::string>& paths) {
  UCUDNN_ASSIGN_OR_RETURN(const db::StoredRows rows,
                          db::ReadMeasurementsCsv(options.file, options.device));
  const auto& [measurements, promises] = rows;
  db::SqliteStore store(paths);
  const Result<size_t> added = store.Add(measurements);
  if (!added.ok()) return Fail(app, added.message());
  const Result<size_t> kept = store.AddPromises(promises);
  if (!kept.ok()) return Fail(app, kept.message());
  std::cout << Counted(*added, "measurement") << " imported"
            << KnownBefore(*added, measurements.size());
  if (!promises.empty()) {
    std::cout << "; " << Counted(*kept, "promise") << " imported"
              << KnownBefore(*kept, promises.size());
  }
  std::cout << "\n";
  return 0;
}

Result<int> Export(const CLI::App& app, const CacheOptions& options,
                   const std::vector<std::string>& paths) {
  Result<db::StoredRows> rows = ReadAll(paths);
  if (!rows.ok()) return Fail(app, rows.message());
  UCUDNN_RETURN_IF_ERROR(KeepDevice(options.device, {&*rows}));
  const int code = WriteOutput(app, db::WriteMeasurementsCsv(*rows), options.file);
  if (code == 0) std::cerr << RowsText(*rows) << " exported\n";
  return code;
}

Result<int> Merge(const CLI::App& app, const CacheOptions& options,
                  const std::vector<std::string>& paths) {
  // Reads all sources before it merges the first one, so that a mistyped name changes no store.
  std::vector<db::StoredRows> sources;
  for (const std::string& path : options.sources) {
    std::error_code error;
    if (std::filesystem::equivalent(path, paths[0], error)) {
      return Status::Error("'" + path + "' is the store itself; name another, or --db PATH");
    }
    Result<db::StoredRows> rows = db::ReadStore(path);
    if (!rows.ok()) return Fail(app, rows.message());
    sources.push_back(std::move(*rows));
  }
  std::vector<db::StoredRows*> all;
  for (db::StoredRows& rows : sources) all.push_back(&rows);
  UCUDNN_RETURN_IF_ERROR(KeepDevice(options.device, all));
  const auto before = db::SqliteStore({paths[0]}).List();
  if (!before.ok()) return Fail(app, before.message());
  db::KnownRows known;
  for (const db::StoredMeasurement& row : *before) known.Add(row);
  db::SqliteStore store(paths);
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto& [rows, promises] = sources[i];
    const auto differing = static_cast<size_t>(
        std::count_if(rows.begin(), rows.end(), [&known](const db::StoredMeasurement& row) {
          return known.Add(row) == db::KnownRows::Kind::kDiffering;
        }));
    const Result<size_t> added = store.Add(rows);
    if (!added.ok()) return Fail(app, added.message());
    const Result<size_t> kept = store.AddPromises(promises);
    if (!kept.ok()) return Fail(app, kept.message());
    std::cout << options.sources[i] << ": " << Counted(*added, "new measurement") << ", "
              << rows.size() - *added << " known before";
    if (differing > 0) std::cout << "; " << Disagreement(differing);
    if (!promises.empty()) {
      std::cout << "; " << Counted(*kept, "new promise") << ", " << promises.size() - *kept
                << " known before";
    }
    std::cout << "\n";
  }
  return 0;
}

Result<int> Verify(const CLI::App& app, const CacheOptions&,
                   const std::vector<std::string>& paths) {
  constexpr size_t kShownFaults = 20;
  size_t unsound = 0;
  for (const std::string& path : paths) {
    const Result<db::StoreContents> contents = db::Inspect(path);
    const std::vector<std::string> unreadable = {contents.message()};
    const std::vector<std::string>& faults = contents.ok() ? contents->faults : unreadable;
    std::cout << path << ": " << (faults.empty() ? "sound" : "NOT sound") << "\n";
    for (size_t i = 0; i < std::min(faults.size(), kShownFaults); ++i) {
      std::cout << "  " << faults[i] << "\n";
    }
    if (faults.size() > kShownFaults) {
      std::cout << "  and " << Counted(faults.size() - kShownFaults, "more fault") << "\n";
    }
    unsound += faults.empty() ? 0 : 1;
    if (!contents.ok() || (contents->version == 0 && !faults.empty())) continue;
    std::cout << "  schema " << contents->version << ", " << Counted(contents->kernels, "kernel")
              << ", " << Counted(contents->rows, "measurement") << ": " << contents->imported
              << " imported, " << contents->verified << " verified by runs, "
              << contents->incomplete_sizes << " micro-batches lack engines; "
              << Counted(contents->promises, "promise") << "\n";
    for (const auto& [platform, rows] : contents->platforms) {
      std::cout << "  "
                << PlatformText(platform.first, platform.second.first, platform.second.second)
                << ": " << Counted(rows, "measurement") << "\n";
    }
  }
  if (unsound == 0) return 0;
  return Fail(app,
              Counted(unsound, "store") + " of " + std::to_string(paths.size()) + " not sound");
}

Result<int> Prune(const CLI::App& app, const CacheOptions& options,
                  const std::vector<std::string>& paths) {
  if (!options.device.empty()) {
    Result<db::StoredRows> rows = ReadAll({paths.front()});
    if (!rows.ok()) return Fail(app, rows.message());
    UCUDNN_RETURN_IF_ERROR(KeepDevice(options.device, {&*rows}));
  }
  const Result<db::Pruned> pruned =
      db::SqliteStore({paths.front()}).Prune(options.device, options.dry_run);
  if (!pruned.ok()) return Fail(app, pruned.message());
  size_t rows = 0;
  for (const auto& [platform, count] : pruned->platforms) {
    rows += count;
    std::cout << "  " << PlatformText(platform.device, platform.cudnn, platform.driver) << ": "
              << Counted(count, "measurement") << "\n";
  }
  std::cout << Counted(rows, "measurement") << " and " << Counted(pruned->kernels, "kernel")
            << " without any " << (options.dry_run ? "to remove" : "removed");
  if (!options.dry_run) {
    std::cout << "; " << pruned->file << ": " << FormatByteSize(pruned->bytes_before) << " before, "
              << FormatByteSize(pruned->bytes_after) << " now";
  }
  std::cout << "\n";
  return 0;
}

struct CacheCommand {
  const char* name;
  const char* usage;  // the words that follow `name`
  const char* help;
  const char* device_help;  // null: the subcommand has no --device
  Result<int> (*run)(const CLI::App&, const CacheOptions&, const std::vector<std::string>& paths);
  bool makes_store = false;
  bool reads_unsound = false;  // whether the subcommand accepts files that are no stores
};

constexpr CacheCommand kCommands[] = {
    {"show", "[--device NAME] [--db PATH] [--json]", "print what the stores hold",
     "rows of this device alone", Show},
    {"import", "FILE.csv [--device NAME] [--db PATH]",
     "add the rows of a CSV file to the first store",
     "device of rows that name none, as the driver calls it", Import, true},
    {"export", "FILE.csv [--device NAME] [--db PATH]", "write all rows of the stores to a CSV file",
     "rows of this device alone", Export},
    {"merge", "STORE... [--device NAME] [--db PATH]",
     "add the rows of other stores to the first store; where both have one, its own stays",
     "rows of this device alone", Merge, true},
    {"verify", "[--db PATH]",
     "read every page and row of the stores; exit code 1 when one is not sound", nullptr, Verify,
     false, true},
    {"prune", "[--device NAME] [--dry-run] [--db PATH]",
     "keep, of every device, the rows of its newest cuDNN and driver in the first store; rows of "
     "unknown versions stay",
     "prune this device's rows alone", Prune, false, true}};

Result<int> RunCache(const CLI::App& app, const CacheOptions& options) {
  if (app.get_subcommands().empty()) {
    return Status::Error("which command? One of " + Subcommands(app) + "; see --help");
  }
  const CLI::App& chosen = *app.get_subcommands().front();
  const CacheCommand& command =
      *std::find_if(std::begin(kCommands), std::end(kCommands),
                    [&](const CacheCommand& one) { return one.name == chosen.get_name(); });
  UCUDNN_RETURN_IF_ERROR(options.variables.Check());
  options.variables.Export();
  const std::vector<std::string>& paths = ProcessOptions().stores;
  if (paths.empty()) return Status::Error("there is no store; name one with --db PATH");
  for (const std::string& path : paths) {
    if (command.makes_store) break;
    if (!std::filesystem::exists(path)) {
      return Status::Error("'" + path + "': there is no such store (yet)");
    }
  }
  for (const std::string& path : paths) {
    if (command.makes_store || command.reads_unsound) break;
    // If the named file is no store, a run would silently use another file beside it. This command
    // refuses instead.
    if (Status store = CheckIsStore(path); !store.ok()) return Fail(chosen, store.message());
  }
  return command.run(chosen, options, paths);
}

}  // namespace

Command AddCache(CLI::App& ucudnn) {
  auto options = std::make_shared<CacheOptions>();
  CLI::App* app =
      AddSubcommand(ucudnn, "cache", "cache show|import|export|merge|verify|prune [OPTIONS]",
                    "look into measurement stores, move their rows, check and prune them");
  for (const CacheCommand& command : kCommands) {
    const std::string name = command.name;
    CLI::App& child =
        *AddSubcommand(*app, name, "cache " + name + " " + command.usage, command.help);
    if (name == "show") AddFlag(child, "--json", options->json, "every row, as JSON");
    if (name == "import") AddWord(child, "FILE.csv", options->file, "measurements");
    if (name == "export") AddWord(child, "FILE.csv", options->file, "the file to write");
    if (name == "merge") {
      AddWord(child, "STORE", options->sources, "store files; they are only read");
    }
    if (command.device_help != nullptr) {
      AddOption(child, "--device", options->device, "NAME", command.device_help);
    }
    if (name == "prune") {
      AddFlag(child, "--dry-run", options->dry_run, "tell what would go, and change nothing");
    }
    options->variables.AddOnly(child, "UCUDNN_DATABASE");
  }
  return {app, [app, options](const ProgramWords&) { return RunCache(*app, *options); }};
}

}  // namespace ucudnn::command
