// `ucudnn bench`: measures the convolutions of a network offline, for later runs and for planning.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/options.h"
#include "base/shared_library.h"
#include "command/command.h"
#include "command/installation.h"
#include "command/layer_list.h"
#include "command/measure.h"
#include "command/versions.h"
#include "convolution/columns.h"
#include "db/sqlite_store.h"

namespace ucudnn::command {
namespace {

using Json = nlohmann::ordered_json;

struct BenchOptions {
  LayerSource source;
  bool host = false;
  bool json = false;
  VariableOptions variables;
};

// Shows the current layer on a terminal, nothing in a pipe.
class Progress {
 public:
  explicit Progress(size_t layers) : layers_(layers), shown_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (shown_) std::cerr << "\r\033[K" << std::flush;
  }
  void Next(const Layer& layer) {
    ++at_;
    if (shown_) {
      std::cerr << "\r\033[Kmeasuring " << at_ << "/" << layers_ << ": " << layer.name << " "
                << OperationName(layer.problem.operation) << std::flush;
    }
  }

 private:
  size_t layers_;
  size_t at_ = 0;
  bool shown_;
};

Json ToJson(const MicroConfiguration& micro) {
  return {{"engine", micro.engine},
          {"workspace_bytes", micro.workspace_bytes},
          {"time_ms", micro.time_ms}};
}

Json ToJson(const MeasuredLayer& measured) {
  const ConvolutionProblem& problem = measured.layer.problem;
  Json json = {{"name", measured.layer.name}, {"op", OperationName(problem.operation)}};
  for (const auto& [column, text] : ToColumns(problem)) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty()) continue;
    const bool whole = error == std::errc() && end == text.data() + text.size();
    json["problem"][column] = whole ? Json(number) : Json(text);
  }
  json["undivided"] = measured.undivided ? ToJson(*measured.undivided) : Json();
  json["divided"] = Json();
  if (measured.divided) {
    Json plan = Json::array();
    for (const Run& run : measured.divided->runs) {
      Json piece = ToJson(run.micro);
      piece["micro_batch"] = run.micro.micro_batch;
      piece["count"] = run.count;
      plan.push_back(std::move(piece));
    }
    json["divided"] = {{"time_ms", measured.divided->TimeMs()},
                       {"workspace_bytes", measured.divided->WorkspaceBytes()},
                       {"plan", std::move(plan)}};
  }
  return json;
}

void PrintJson(const Measured& measured, const Options& options) {
  Json json = {{"format", "ucudnn-bench"},
               {"version", 1},
               {"device", measured.platform.device},
               {"cudnn", measured.platform.cudnn},
               {"driver", measured.platform.driver},
               {"measured", measured.measured},
               {"policy", BatchSizePolicyName(options.policy)},
               {"limit_bytes", options.workspace_limit ? Json(*options.workspace_limit) : Json()}};
  json["kernels"] = Json::array();
  for (const MeasuredLayer& layer : measured.layers) json["kernels"].push_back(ToJson(layer));
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

// "128 + 2 x 64": the micro-batches in their order.
std::string Division(const Configuration& configuration) {
  std::string text;
  for (const Run& run : configuration.runs) {
    if (!text.empty()) text += " + ";
    if (run.count > 1) text += std::to_string(run.count) + " x ";
    text += std::to_string(run.micro.micro_batch);
  }
  return text;
}

void PrintTable(const Measured& measured, const Options& options) {
  std::cout << measured.platform.device << ", cuDNN "
            << CudnnVersion(static_cast<size_t>(measured.platform.cudnn)) << ", workspace limit "
            << (options.workspace_limit ? FormatByteSize(*options.workspace_limit) : "none")
            << ", policy " << BatchSizePolicyName(options.policy) << ", " << measured.measured
            << " measurements made now\n";
  std::printf("%-20s %-16s %12s %12s %7s  %-12s %s\n", "layer", "operation", "undivided ms",
              "divided ms", "gain", "workspace", "micro-batches");
  for (const MeasuredLayer& layer : measured.layers) {
    const std::string name = layer.layer.name.substr(0, 20);
    std::printf("%-20s %-16s", name.c_str(), OperationName(layer.layer.problem.operation));
    if (layer.undivided) {
      std::printf(" %12.4g", layer.undivided->time_ms);
    } else {
      std::printf(" %12s", "none fits");
    }
    if (layer.divided) {
      const double gain = layer.undivided ? layer.undivided->time_ms / layer.divided->TimeMs() : 0;
      std::printf(" %12.4g", layer.divided->TimeMs());
      if (layer.undivided) {
        std::printf(" %6.2fx", gain);
      } else {
        std::printf(" %7s", "");
      }
      std::printf("  %-12s %s", FormatByteSize(layer.divided->WorkspaceBytes()).c_str(),
                  Division(*layer.divided).c_str());
    } else {
      std::printf(" %12s", "-");
    }
    std::printf("\n");
  }
}

// The stand-ins in place of the driver and cuDNN. Opened by path first, a library serves whoever
// asks for its soname later in this process.
Status UseStandIns() {
  const Installation installation = FindInstallation();
  for (const std::string& path : {installation.host_cuda, installation.host_cudnn}) {
    if (!FileExists(path))
      return Status::Error("'" + path + "' is missing: ucudnn is not complete");
    const Result<SharedLibrary> library = SharedLibrary::Open(path);
    if (!library.ok()) return library.status();
  }
  setenv("UCUDNN_REAL_CUDNN", installation.host_cudnn.c_str(), 1);
  return Status::Ok();
}

int Bench(const CLI::App& app, const BenchOptions& bench) {
  const auto refuse = [&](const Status& status) { return Refuse(app, status.message()); };
  if (Status status = bench.variables.Check(); !status.ok()) return refuse(status);
  const Result<std::vector<Layer>> layers = ListLayers(bench.source);
  if (!layers.ok()) return refuse(layers.status());
  bench.variables.Export();
  if (bench.host) {
    if (Status status = UseStandIns(); !status.ok()) return refuse(status);
  }
  const Options& options = ProcessOptions();
  std::unique_ptr<db::SqliteStore> store;
  if (!options.databases.empty()) store = std::make_unique<db::SqliteStore>(options.databases);
  Result<Measured> measured = [&] {
    Progress progress(layers->size());
    return MeasureLayers(*layers, options, store.get(),
                         [&](const Layer& layer) { progress.Next(layer); });
  }();
  if (!measured.ok()) {
    refuse(measured.status());
    return 1;
  }
  if (bench.json) {
    PrintJson(*measured, options);
  } else {
    PrintTable(*measured, options);
  }
  return 0;
}

}  // namespace

Command AddBench(CLI::App& ucudnn) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* app = AddSubcommand(ucudnn, "bench", "bench (--layers FILE.csv | --net NAME) [OPTIONS]",
                                "measure convolutions offline, for later runs");
  options->source.AddTo(*app);
  app->add_flag("--host", options->host, "measure on the CPU stand-in: these are CPU times");
  app->add_flag("--json", options->json, "print JSON instead of a table");
  options->variables.AddTo(*app, {"UCUDNN_REPORT"});
  return {app, [app, options](const ProgramWords&) { return Bench(*app, *options); }};
}

}  // namespace ucudnn::command
