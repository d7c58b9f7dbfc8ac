// `ucudnn bench`: measures the convolutions of a network offline, for later runs and for planning.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/options.h"
#include "base/shared_library.h"
#include "command/cliff.h"
#include "command/cliff_output.h"
#include "command/command.h"
#include "command/installation.h"
#include "command/layer_list.h"
#include "command/measure.h"
#include "command/plan_output.h"
#include "command/versions.h"
#include "db/sqlite_store.h"
#include "db/store_choice.h"

namespace ucudnn::command {
namespace {

struct BenchOptions {
  LayerSource source;
  bool host = false;
  bool json = false;
  bool cliff = false;
  VariableOptions variables;
};

Json ToJson(const MeasuredLayer& measured) {
  const ConvolutionProblem& problem = measured.layer.problem;
  Json json = {{"name", measured.layer.name},
               {"op", OperationName(problem.operation)},
               {"problem", ProblemJson(problem)}};
  json["undivided"] = measured.undivided ? EngineJson(*measured.undivided) : Json();
  json["divided"] = Json();
  if (measured.divided) {
    json["divided"] = {{"time_ms", measured.divided->TimeMs()},
                       {"workspace_bytes", measured.divided->WorkspaceBytes()},
                       {"plan", PlanJson(*measured.divided)},
                       {"verified", measured.verified}};
  }
  return json;
}

void PrintMeasuredJson(const Measured& measured, const Options& options) {
  Json json = {{"format", "ucudnn-bench"},
               {"version", 1},
               {"device", measured.platform.device},
               {"cudnn", measured.platform.cudnn},
               {"driver", measured.platform.driver},
               {"devices", measured.devices},
               {"measured", measured.measured},
               {"engines", EngineSetName(options.engines)},
               {"policy", BatchSizePolicyName(options.policy)},
               {"limit_bytes", options.workspace_limit ? Json(*options.workspace_limit) : Json()}};
  json["kernels"] = Json::array();
  for (const MeasuredLayer& layer : measured.layers) json["kernels"].push_back(ToJson(layer));
  std::cout << JsonText(json);
}

// Each engine once, in the order of the pieces.
std::string EnginesText(const Configuration& configuration) {
  std::vector<EngineId> engines;
  for (const Run& run : configuration.runs) {
    if (std::find(engines.begin(), engines.end(), run.micro.engine) == engines.end()) {
      engines.push_back(run.micro.engine);
    }
  }
  std::string text;
  for (const EngineId& engine : engines) text += (text.empty() ? "" : ", ") + engine.Text();
  return text;
}

void PrintTable(const Measured& measured, const Options& options) {
  if (measured.devices > 1) std::cout << measured.devices << " x ";
  std::cout << measured.platform.device << ", cuDNN "
            << CudnnVersion(static_cast<size_t>(measured.platform.cudnn)) << ", workspace limit "
            << (options.workspace_limit ? FormatByteSize(*options.workspace_limit) : "none")
            << ", policy " << BatchSizePolicyName(options.policy) << ", engines "
            << EngineSetName(options.engines) << ", " << measured.measured
            << " measurements made now\n";
  std::printf("%-20s %-16s %12s %12s %7s  %-12s %-20s %s\n", "layer", "operation", "undivided ms",
              "divided ms", "gain", "workspace", "micro-batches", "engines");
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
      std::printf("  %-12s %-20s %s", FormatByteSize(layer.divided->WorkspaceBytes()).c_str(),
                  DivisionText(*layer.divided).c_str(), EnginesText(*layer.divided).c_str());
    } else {
      std::printf(" %12s", "-");
    }
    std::printf("\n");
  }
}

// Tells of divisions whose output was not equal or could not be compared. True when one is wrong.
bool TellOfUnverified(const CLI::App& app, const Measured& measured) {
  bool wrong = false;
  for (const MeasuredLayer& layer : measured.layers) {
    const std::string kernel =
        layer.layer.name + " " + OperationName(layer.layer.problem.operation) + ": ";
    for (const std::string& what : layer.wrong) {
      Refuse(app, kernel + "a division is wrong and not used: " + what);
      wrong = true;
    }
    if (!layer.verified) Refuse(app, kernel + "not compared with undivided: " + layer.unverified);
  }
  return wrong;
}

// The stand-ins in place of the driver and cuDNN. Opened by path first, a library serves whoever
// asks for its soname later in this process.
Status UseStandIns() {
  const Installation installation = FindInstallation();
  for (const std::string& path : {installation.host_cuda, installation.host_cudnn}) {
    if (!FileExists(path)) return Status::Error(WhyMissing(installation, path));
    const Result<SharedLibrary> library = SharedLibrary::Open(path);
    if (!library.ok()) return library.status();
  }
  setenv("UCUDNN_REAL_CUDNN", installation.host_cudnn.c_str(), 1);
  return Status::Ok();
}

int Bench(const CLI::App& app, const BenchOptions& bench) {
  const auto refuse = [&](const Status& status) { return Refuse(app, status.message()); };
  const auto fail = [&](const Status& status) {
    refuse(status);
    return 1;
  };
  if (Status status = bench.variables.Check(); !status.ok()) return refuse(status);
  const Result<std::vector<Layer>> layers = ListLayers(bench.source);
  if (!layers.ok()) return refuse(layers.status());
  if (bench.cliff && bench.variables.Given("UCUDNN_WORKSPACE_LIMIT")) {
    return Refuse(app, "--workspace-limit: --cliff sets each kernel's limit itself");
  }
  if (bench.cliff && bench.variables.Given("UCUDNN_BENCHMARK_DEVICES")) {
    return Refuse(app, "--devices: --cliff runs everything on one device");
  }
  if (bench.cliff && bench.variables.Given("UCUDNN_ENGINES")) {
    return Refuse(app, "--engines: --cliff runs legacy algorithms, as cuDNN's own choice would");
  }
  bench.variables.Export();
  if (bench.host) {
    if (Status status = UseStandIns(); !status.ok()) return refuse(status);
  }
  const Options& options = ProcessOptions();
  if (options.workspace_limit_auto) {
    return Refuse(
        app,
        "--workspace-limit 'auto': comes from the memory that a running program leaves, and "
        "none runs (accepted: caller or a size)");
  }
  std::unique_ptr<db::SqliteStore> store;
  const db::StoreChoice choice = db::ChooseStores(options.stores);
  if (!choice.paths.empty()) {
    store = std::make_unique<db::SqliteStore>(choice.paths, choice.written);
  }
  if (choice.network != nullptr) {
    std::cerr << "the store lies on " << choice.network << ": measurements go to "
              << choice.paths[choice.written] << "\n";
  }
  Progress progress(*layers, isatty(STDERR_FILENO) == 1,
                    [&](const std::string& line) { Refuse(app, line); });
  if (bench.cliff) {
    const Result<Cliffs> cliffs = MeasureCliffs(*layers, options, store.get(),
                                                [&](const Layer& layer) { progress.Begin(layer); });
    progress.Clear();
    if (!cliffs.ok()) return fail(cliffs.status());
    (bench.json ? PrintCliffJson : PrintCliffTable)(*cliffs, options);
    return 0;
  }
  const Result<Measured> measured = MeasureLayers(*layers, options, store.get(), progress);
  progress.Clear();
  if (!measured.ok()) return fail(measured.status());
  (bench.json ? PrintMeasuredJson : PrintTable)(*measured, options);
  return TellOfUnverified(app, *measured) ? 1 : 0;
}

}  // namespace

Command AddBench(CLI::App& ucudnn) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* app =
      AddSubcommand(ucudnn, "bench",
                    "bench (--layers FILE.csv | --net NAME|FILE --batch N | --trace FILE.json) "
                    "[--cliff] [OPTIONS]",
                    "measure convolutions and compare their divisions offline, for later runs");
  options->source.AddTo(*app);
  app->add_flag("--host", options->host, "measure on the CPU stand-in: these are CPU times")
      ->disable_flag_override();
  app->add_flag("--json", options->json, "print JSON instead of a table")->disable_flag_override();
  app->add_flag("--cliff", options->cliff,
                "run each kernel in its best engine's workspace, and in one byte less: as cuDNN "
                "would, and divided")
      ->disable_flag_override();
  options->variables.AddTo(*app, {"UCUDNN_REPORT", "UCUDNN_TOTAL_WORKSPACE", "UCUDNN_DIVISION",
                                  "UCUDNN_SOLVER", "UCUDNN_WORKSPACE_PLAN"});
  options->variables.AddAs(*app, "UCUDNN_BENCHMARK_DEVICES", "devices");
  return {app, [app, options](const ProgramWords&) { return Bench(*app, *options); }};
}

}  // namespace ucudnn::command
