// `ucudnn cache`: what measurement stores hold, and their rows from and to CSV files.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/options.h"
#include "command/command.h"
#include "command/versions.h"
#include "convolution/columns.h"
#include "convolution/problem.h"
#include "db/measurements_csv.h"
#include "db/sqlite_store.h"

namespace ucudnn::command {
namespace {

using Rows = std::vector<db::StoredMeasurement>;
using Json = nlohmann::ordered_json;

struct CacheOptions {
  CLI::App* show = nullptr;
  CLI::App* import = nullptr;
  CLI::App* export_ = nullptr;
  bool json = false;
  std::string file;
  std::string device;
  VariableOptions variables;  // --db
};

int Fail(const CLI::App& app, const std::string& message) {
  Refuse(app, message);
  return 1;
}

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
  json["engine"] = measured.micro.engine;
  json["micro_batch"] = measured.micro.micro_batch;
  json["time_ms"] = measured.micro.time_ms;
  json["workspace_bytes"] = measured.micro.workspace_bytes;
  json["deterministic"] = measured.micro.deterministic;
  json["cudnn"] = row.platform.cudnn;
  json["driver"] = row.platform.driver;
  json["device"] = row.platform.device;
  json["samples"] = measured.samples;
  json["verified"] = measured.verified;
  return json;
}

// The measurements of one kernel on one platform.
struct Kernel {
  std::string name;
  ConvolutionProblem problem;
  size_t rows = 0;
  std::set<std::string> engines;
  std::set<int> micro_batches;
};

void Add(const db::StoredMeasurement& row, std::vector<Kernel>& kernels) {
  const ConvolutionProblem family = KernelFamily(row.problem);
  auto kernel = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& known) {
    return KernelFamily(known.problem) == family;
  });
  if (kernel == kernels.end()) kernel = kernels.insert(kernel, {row.name, row.problem, 0, {}, {}});
  kernel->problem.n = std::max(kernel->problem.n, row.problem.n);
  ++kernel->rows;
  kernel->engines.insert(row.measurement.micro.engine);
  kernel->micro_batches.insert(row.measurement.micro.micro_batch);
}

std::string Count(size_t count, const std::string& noun) {
  const std::string plural = noun.ends_with("h") ? "es" : "s";
  return std::to_string(count) + " " + noun + (count == 1 ? "" : plural);
}

void PrintText(const Rows& rows) {
  std::map<std::tuple<std::string, int, int>, std::vector<Kernel>> platforms;
  for (const db::StoredMeasurement& row : rows) {
    const planning::Platform& platform = row.platform;
    Add(row, platforms[{platform.device, platform.cudnn, platform.driver}]);
  }
  for (const auto& [platform, kernels] : platforms) {
    const auto& [device, cudnn, driver] = platform;
    std::cout << device << ", cuDNN " << (cudnn == 0 ? "unknown" : CudnnVersion(cudnn))
              << ", driver " << (driver == 0 ? "unknown" : DriverVersion(driver)) << "\n";
    for (const Kernel& kernel : kernels) {
      std::cout << "  " << (kernel.name.empty() ? "" : kernel.name + ": ")
                << Describe(kernel.problem) << "\n    " << Count(kernel.rows, "measurement")
                << " of " << Count(kernel.engines.size(), "engine") << " at "
                << Count(kernel.micro_batches.size(), "micro-batch") << " up to "
                << *kernel.micro_batches.rbegin() << "\n";
    }
  }
  std::cout << Count(rows.size(), "measurement") << "\n";
}

int Show(const CacheOptions& options, const std::vector<std::string>& paths) {
  db::SqliteStore store(paths);
  const Result<Rows> rows = store.List();
  if (!rows.ok()) return Fail(*options.show, rows.message());
  if (!options.json) {
    PrintText(*rows);
    return 0;
  }
  Json json = {{"format", "ucudnn-cache"}, {"version", 1}, {"stores", paths}};
  json["measurements"] = Json::array();
  for (const db::StoredMeasurement& row : *rows) json["measurements"].push_back(ToJson(row));
  // A store's text need not be UTF-8; the reader of the JSON may rely on it.
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  return 0;
}

int Import(const CacheOptions& options, const std::vector<std::string>& paths) {
  const Result<Rows> rows = db::ReadMeasurementsCsv(options.file, options.device);
  if (!rows.ok()) return Refuse(*options.import, rows.message());
  db::SqliteStore store(paths);
  const Result<size_t> added = store.Add(*rows);
  if (!added.ok()) return Fail(*options.import, added.message());
  std::cout << Count(*added, "measurement") << " imported";
  if (*added < rows->size()) std::cout << ", " << rows->size() - *added << " known before";
  std::cout << "\n";
  return 0;
}

int Export(const CacheOptions& options, const std::vector<std::string>& paths) {
  db::SqliteStore store(paths);
  const Result<Rows> rows = store.List();
  if (!rows.ok()) return Fail(*options.export_, rows.message());
  std::ofstream file(options.file, std::ios::binary);
  file << db::WriteMeasurementsCsv(*rows) << std::flush;
  if (!file) {
    return Fail(*options.export_,
                "'" + options.file + "' cannot be written: " + std::strerror(errno));
  }
  std::cerr << Count(rows->size(), "measurement") << " exported\n";
  return 0;
}

int RunCache(const CLI::App& app, const CacheOptions& options) {
  if (app.get_subcommands().empty()) {
    return Refuse(app, "what with it? One of show, import and export; see --help");
  }
  const CLI::App& chosen = *app.get_subcommands().front();
  if (Status status = options.variables.Check(); !status.ok()) {
    return Refuse(chosen, status.message());
  }
  options.variables.Export();
  const std::vector<std::string>& paths = ProcessOptions().databases;
  if (paths.empty()) return Refuse(chosen, "there is no store; name one with --db PATH");
  if (&chosen == options.import) return Import(options, paths);
  for (const std::string& path : paths) {
    if (!std::filesystem::exists(path)) {
      return Refuse(chosen, "'" + path + "': there is no such store (yet)");
    }
  }
  return &chosen == options.show ? Show(options, paths) : Export(options, paths);
}

}  // namespace

Command AddCache(CLI::App& ucudnn) {
  auto options = std::make_shared<CacheOptions>();
  CLI::App* app = AddSubcommand(ucudnn, "cache", "cache show|import|export [OPTIONS]",
                                "look into measurement stores, import and export their rows");
  options->show =
      AddSubcommand(*app, "show", "cache show [--db PATH] [--json]", "print what the stores hold");
  options->show->add_flag("--json", options->json, "every row, as JSON");
  options->import =
      AddSubcommand(*app, "import", "cache import FILE.csv [--device NAME] [--db PATH]",
                    "add the rows of a CSV file to the first store");
  options->import->add_option("FILE.csv", options->file, "measurements")->required()->type_name("");
  options->import
      ->add_option("--device", options->device,
                   "device of rows that name none, as the driver calls it")
      ->type_name("NAME");
  options->export_ = AddSubcommand(*app, "export", "cache export FILE.csv [--db PATH]",
                                   "write all rows of the stores to a CSV file");
  options->export_->add_option("FILE.csv", options->file, "the file to write")
      ->required()
      ->type_name("");
  std::vector<Command> later;
  for (const char* name : {"merge", "verify", "prune"}) later.push_back(AddNotBuilt(*app, name));
  for (CLI::App* child : {options->show, options->import, options->export_}) {
    options->variables.AddOnly(*child, "UCUDNN_DATABASE");
  }
  return {app, [app, options, later](const ProgramWords& program) {
            for (const Command& command : later) {
              if (command.app->parsed()) return command.run(program);
            }
            return RunCache(*app, *options);
          }};
}

}  // namespace ucudnn::command
