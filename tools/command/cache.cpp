// `ucudnn cache`: what measurement stores hold and whether it is sound, their rows from and to CSV
// files and other stores, and the removal of old ones.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/byte_size.h"
#include "base/options.h"
#include "base/text.h"
#include "command/command.h"
#include "command/file_check.h"
#include "command/offline_kernels.h"
#include "command/output_file.h"
#include "command/versions.h"
#include "convolution/columns.h"
#include "convolution/engine_name.h"
#include "convolution/problem.h"
#include "db/inspection.h"
#include "db/known_rows.h"
#include "db/measurements_csv.h"
#include "db/sqlite_store.h"

namespace ucudnn::command {
namespace {

using Json = nlohmann::ordered_json;

struct CacheOptions {
  CLI::App* show = nullptr;
  CLI::App* import = nullptr;
  CLI::App* export_ = nullptr;
  CLI::App* merge = nullptr;
  CLI::App* verify = nullptr;
  CLI::App* prune = nullptr;
  bool json = false;
  bool dry_run = false;
  std::string file;
  std::vector<std::string> sources;
  std::string device;
  VariableOptions variables;  // --db
};

int Fail(const CLI::App& app, const std::string& message) { return Refuse(app, message, kFailed); }

// Whole numbers as numbers, everything else as text.
Json Value(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return text;
}

Json ToJson(const db::StoredMeasurement& row) {
  const planning::Measurement& measured = row.measurement;
  Json json;
  if (!row.name.empty()) json["name"] = row.name;
  for (const auto& [column, text] : ToColumns(row.problem)) {
    if (!text.empty()) json[column] = Value(text);
  }
  json["op"] = OperationName(row.problem.operation);
  json["engine"] = measured.micro.engine.Text();
  json["micro_batch"] = measured.micro.micro_batch;
  json["piece_ms"] = measured.micro.time_ms;  // of one micro-batch
  json["workspace_bytes"] = measured.micro.workspace_bytes;
  json["deterministic"] = measured.micro.deterministic;
  json["cudnn"] = row.platform.cudnn;
  json["driver"] = row.platform.driver;
  json["device"] = row.platform.device;
  json["samples"] = measured.samples;
  json["verified"] = measured.verified;
  return json;
}

Json ToJson(const planning::EnginePromise& promise) {
  Json json;
  for (const auto& [column, text] : ToColumns(promise.problem)) {
    if (!text.empty()) json[column] = Value(text);
  }
  json["op"] = OperationName(promise.problem.operation);
  json["engine"] = promise.engine.Text();
  json["limit_bytes"] = promise.limit_bytes;
  json["workspace_bytes"] = promise.workspace_bytes;
  json["undivided"] = promise.undivided.empty() ? Json() : Json(promise.undivided.Text());
  json["any_engine"] = promise.any_engine;
  json["cudnn"] = promise.platform.cudnn;
  json["driver"] = promise.platform.driver;
  json["device"] = promise.platform.device;
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
  MicroConfiguration fastest;  // at the largest micro-batch
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

std::string Count(size_t count, const std::string& noun) {
  const std::string plural = noun.ends_with("h") ? "es" : "s";
  return std::to_string(count) + " " + noun + (count == 1 ? "" : plural);
}

std::string Count(const db::StoredRows& rows) {
  return Count(rows.measurements.size(), "measurement") +
         (rows.promises.empty() ? "" : ", " + Count(rows.promises.size(), "promise"));
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
                << Describe(kernel.problem) << "\n    " << Count(kernel.rows, "measurement")
                << " of " << Count(kernel.engines.size(), "engine") << " at "
                << Count(kernel.micro_batches.size(), "micro-batch") << " up to "
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
  std::cout << Count(rows) << "\n";
}

// Without a name, those of all devices. An error names the devices that there are.
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

std::string Known(size_t added, size_t all) {
  return added < all ? ", " + std::to_string(all - added) + " known before" : "";
}

int Show(const CacheOptions& options, const std::vector<std::string>& paths) {
  Result<db::StoredRows> rows = ReadAll(paths);
  if (!rows.ok()) return Fail(*options.show, rows.message());
  if (Status device = KeepDevice(options.device, {&*rows}); !device.ok()) {
    return Refuse(*options.show, device.message());
  }
  if (!options.json) {
    PrintRows(*rows);
    return 0;
  }
  Json json = {{"format", "ucudnn-cache"}, {"version", 2}, {"stores", paths}};
  json["measurements"] = Json::array();
  for (const auto& row : rows->measurements) json["measurements"].push_back(ToJson(row));
  json["promises"] = Json::array();
  for (const auto& promise : rows->promises) json["promises"].push_back(ToJson(promise));
  // A store's text need not be UTF-8; the reader of the JSON may rely on it.
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  return 0;
}

int Import(const CacheOptions& options, const std::vector<std::string>& paths) {
  const Result<db::StoredRows> rows = db::ReadMeasurementsCsv(options.file, options.device);
  if (!rows.ok()) return Refuse(*options.import, rows.message());
  const auto& [measurements, promises] = *rows;
  db::SqliteStore store(paths);
  const Result<size_t> added = store.Add(measurements);
  if (!added.ok()) return Fail(*options.import, added.message());
  const Result<size_t> kept = store.AddPromises(promises);
  if (!kept.ok()) return Fail(*options.import, kept.message());
  std::cout << Count(*added, "measurement") << " imported" << Known(*added, measurements.size());
  if (!promises.empty()) {
    std::cout << "; " << Count(*kept, "promise") << " imported" << Known(*kept, promises.size());
  }
  std::cout << "\n";
  return 0;
}

int Export(const CacheOptions& options, const std::vector<std::string>& paths) {
  Result<db::StoredRows> rows = ReadAll(paths);
  if (!rows.ok()) return Fail(*options.export_, rows.message());
  if (Status device = KeepDevice(options.device, {&*rows}); !device.ok()) {
    return Refuse(*options.export_, device.message());
  }
  const int code = WriteOutput(*options.export_, db::WriteMeasurementsCsv(*rows), options.file);
  if (code == 0) std::cerr << Count(*rows) << " exported\n";
  return code;
}

int Merge(const CacheOptions& options, const std::vector<std::string>& paths) {
  // All are read before the first is merged: a mistyped name changes nothing.
  std::vector<db::StoredRows> sources;
  for (const std::string& path : options.sources) {
    std::error_code error;
    if (std::filesystem::equivalent(path, paths[0], error)) {
      return Refuse(*options.merge,
                    "'" + path + "' is the store itself; name another, or --db PATH");
    }
    Result<db::StoredRows> rows = db::ReadStore(path);
    if (!rows.ok()) return Fail(*options.merge, rows.message());
    sources.push_back(std::move(*rows));
  }
  std::vector<db::StoredRows*> all;
  for (db::StoredRows& rows : sources) all.push_back(&rows);
  if (Status device = KeepDevice(options.device, all); !device.ok()) {
    return Refuse(*options.merge, device.message());
  }
  const auto before = db::SqliteStore({paths[0]}).List();
  if (!before.ok()) return Fail(*options.merge, before.message());
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
    if (!added.ok()) return Fail(*options.merge, added.message());
    const Result<size_t> kept = store.AddPromises(promises);
    if (!kept.ok()) return Fail(*options.merge, kept.message());
    std::cout << options.sources[i] << ": " << Count(*added, "new measurement") << ", "
              << rows.size() - *added << " known before";
    if (differing > 0) std::cout << "; " << Disagreement(differing);
    if (!promises.empty()) {
      std::cout << "; " << Count(*kept, "new promise") << ", " << promises.size() - *kept
                << " known before";
    }
    std::cout << "\n";
  }
  return 0;
}

int Verify(const CacheOptions& options, const std::vector<std::string>& paths) {
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
      std::cout << "  and " << Count(faults.size() - kShownFaults, "more fault") << "\n";
    }
    unsound += faults.empty() ? 0 : 1;
    if (!contents.ok() || (contents->version == 0 && !faults.empty())) continue;
    std::cout << "  schema " << contents->version << ", " << Count(contents->kernels, "kernel")
              << ", " << Count(contents->rows, "measurement") << ": " << contents->imported
              << " imported, " << contents->verified << " verified by runs, "
              << contents->incomplete_sizes << " micro-batches lack engines; "
              << Count(contents->promises, "promise") << "\n";
    for (const auto& [platform, rows] : contents->platforms) {
      std::cout << "  "
                << PlatformText(platform.first, platform.second.first, platform.second.second)
                << ": " << Count(rows, "measurement") << "\n";
    }
  }
  if (unsound == 0) return 0;
  return Fail(*options.verify,
              Count(unsound, "store") + " of " + std::to_string(paths.size()) + " not sound");
}

int Prune(const CacheOptions& options, const std::vector<std::string>& paths) {
  if (!options.device.empty()) {
    Result<db::StoredRows> rows = ReadAll({paths.front()});
    if (!rows.ok()) return Fail(*options.prune, rows.message());
    if (Status device = KeepDevice(options.device, {&*rows}); !device.ok()) {
      return Refuse(*options.prune, device.message());
    }
  }
  const Result<db::Pruned> pruned =
      db::SqliteStore({paths.front()}).Prune(options.device, options.dry_run);
  if (!pruned.ok()) return Fail(*options.prune, pruned.message());
  size_t rows = 0;
  for (const auto& [platform, count] : pruned->platforms) {
    rows += count;
    std::cout << "  " << PlatformText(platform.device, platform.cudnn, platform.driver) << ": "
              << Count(count, "measurement") << "\n";
  }
  std::cout << Count(rows, "measurement") << " and " << Count(pruned->kernels, "kernel")
            << " without any " << (options.dry_run ? "to remove" : "removed");
  if (!options.dry_run) {
    std::cout << "; " << pruned->file << ": " << FormatByteSize(pruned->bytes_before) << " before, "
              << FormatByteSize(pruned->bytes_after) << " now";
  }
  std::cout << "\n";
  return 0;
}

int RunCache(const CLI::App& app, const CacheOptions& options) {
  if (app.get_subcommands().empty()) {
    return Refuse(app, "which command? One of " + Subcommands(app) + "; see --help");
  }
  const CLI::App& chosen = *app.get_subcommands().front();
  if (Status status = options.variables.Check(); !status.ok()) {
    return Refuse(chosen, status.message());
  }
  options.variables.Export();
  const std::vector<std::string>& paths = ProcessOptions().stores;
  if (paths.empty()) return Refuse(chosen, "there is no store; name one with --db PATH");
  if (&chosen == options.import) return Import(options, paths);
  if (&chosen == options.merge) return Merge(options, paths);
  for (const std::string& path : paths) {
    if (!std::filesystem::exists(path)) {
      return Refuse(chosen, "'" + path + "': there is no such store (yet)");
    }
  }
  if (&chosen == options.verify) return Verify(options, paths);
  if (&chosen == options.prune) return Prune(options, paths);
  // What is asked about is this file, not one that took its place.
  for (const std::string& path : paths) {
    if (Status store = CheckIsStore(path); !store.ok()) return Fail(chosen, store.message());
  }
  return &chosen == options.show ? Show(options, paths) : Export(options, paths);
}

}  // namespace

Command AddCache(CLI::App& ucudnn) {
  auto options = std::make_shared<CacheOptions>();
  CLI::App* app =
      AddSubcommand(ucudnn, "cache", "cache show|import|export|merge|verify|prune [OPTIONS]",
                    "look into measurement stores, move their rows, check and prune them");
  const auto device = [&](CLI::App* child, const std::string& help) {
    child->add_option("--device", options->device, help)->type_name("NAME");
  };
  options->show = AddSubcommand(*app, "show", "cache show [--device NAME] [--db PATH] [--json]",
                                "print what the stores hold");
  options->show->add_flag("--json", options->json, "every row, as JSON")->disable_flag_override();
  device(options->show, "rows of this device alone");
  options->import =
      AddSubcommand(*app, "import", "cache import FILE.csv [--device NAME] [--db PATH]",
                    "add the rows of a CSV file to the first store");
  options->import->add_option("FILE.csv", options->file, "measurements")->required()->type_name("");
  device(options->import, "device of rows that name none, as the driver calls it");
  options->export_ =
      AddSubcommand(*app, "export", "cache export FILE.csv [--device NAME] [--db PATH]",
                    "write all rows of the stores to a CSV file");
  options->export_->add_option("FILE.csv", options->file, "the file to write")
      ->required()
      ->type_name("");
  device(options->export_, "rows of this device alone");
  options->merge = AddSubcommand(
      *app, "merge", "cache merge STORE... [--device NAME] [--db PATH]",
      "add the rows of other stores to the first store; where both have one, its own stays");
  options->merge->add_option("STORE", options->sources, "store files; they are only read")
      ->required()
      ->type_name("");
  device(options->merge, "rows of this device alone");
  options->verify =
      AddSubcommand(*app, "verify", "cache verify [--db PATH]",
                    "read every page and row of the stores; exit code 1 when one is not sound");
  options->prune = AddSubcommand(
      *app, "prune", "cache prune [--device NAME] [--dry-run] [--db PATH]",
      "keep, of every device, the rows of its newest cuDNN and driver in the first store; rows of "
      "unknown versions stay");
  device(options->prune, "prune this device's rows alone");
  options->prune->add_flag("--dry-run", options->dry_run, "tell what would go, and change nothing")
      ->disable_flag_override();
  for (CLI::App* child : {options->show, options->import, options->export_, options->merge,
                          options->verify, options->prune}) {
    options->variables.AddOnly(*child, "UCUDNN_DATABASE");
  }
  return {app, [app, options](const ProgramWords&) { return RunCache(*app, *options); }};
}

}  // namespace ucudnn::command
