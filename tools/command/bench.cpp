// `ucudnn bench`: measures the convolutions of a network offline, for later runs and for planning.
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/options.h"
#include "command/cliff.h"
#include "command/cliff_output.h"
#include "command/command.h"
#include "command/file_check.h"
#include "command/layer_list.h"
#include "command/measure.h"
#include "command/plan_output.h"
#include "command/stand_ins.h"
#include "command/versions.h"
#include "convolution/engine_name.h"
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
  json["best_undivided"] = measured.best_undivided ? EngineJson(*measured.best_undivided) : Json();
  json["divided"] = Json();
  if (measured.divided) {
    json["divided"] = {{"time_ms", measured.divided->configuration.TimeMs()},
                       {"workspace_bytes", measured.divided->configuration.WorkspaceBytes()},
                       {"plan", PlanJson(*measured.divided)},
                       {"verified", measured.verified}};
  }
  return json;
}

void PrintMeasuredJson(const Measured& measured, const Options& options) {
  Json json = {{"format", "ucudnn-bench"},
               {"version", 2},
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

void PrintTime(const std::optional<MicroConfiguration>& undivided, int width) {
  if (undivided) {
    std::printf(" %*.4g", width, undivided->time_ms);
  } else {
    std::printf(" %*s", width, "none fits");
  }
}

// Nothing where one of the times is not known.
void PrintGain(double over_ms, double ms) {
  if (over_ms > 0 && ms > 0) {
    std::printf(" %7.2fx", over_ms / ms);
  } else {
    std::printf(" %8s", "");
  }
}

void PrintTable(const Measured& measured, const Options& options) {
  if (measured.devices > 1) std::cout << measured.devices << " x ";
  std::cout << measured.platform.device << ", cuDNN "
            << CudnnVersion(static_cast<size_t>(measured.platform.cudnn)) << ", workspace limit "
            << (options.workspace_limit ? FormatByteSize(*options.workspace_limit) : "none")
            << ", policy " << BatchSizePolicyName(options.policy) << ", engines "
            << EngineSetName(options.engines) << ", " << measured.measured
            << " measurements made now\n";
  std::cout
      << "undivided: by the fastest legacy algorithm; best: undivided by the fastest engine of any "
         "API; engine, division: what each gains\n"
      << std::flush;
  std::printf("%-20s %-16s %12s %10s %10s %8s %8s  %-10s %-20s %s\n", "layer", "operation",
              "undivided ms", "best ms", "divided ms", "engine", "division", "workspace",
              "micro-batches", "engines");
  for (const MeasuredLayer& layer : measured.layers) {
    const std::string name = layer.layer.name.substr(0, 20);
    std::printf("%-20s %-16s", name.c_str(), OperationName(layer.layer.problem.operation));
    PrintTime(layer.undivided, 12);
    PrintTime(layer.best_undivided, 10);
    const double best_ms = layer.best_undivided ? layer.best_undivided->time_ms : 0;
    if (layer.divided) {
      std::printf(" %10.4g", layer.divided->configuration.TimeMs());
    } else {
      std::printf(" %10s", "-");
    }
    PrintGain(layer.undivided ? layer.undivided->time_ms : 0, best_ms);
    PrintGain(best_ms, layer.divided ? layer.divided->configuration.TimeMs() : 0);
    if (layer.divided) {
      const Operation operation = layer.layer.problem.operation;
      std::printf("  %-10s %-20s %s",
                  FormatByteSize(layer.divided->configuration.WorkspaceBytes()).c_str(),
                  DivisionText(*layer.divided).c_str(),
                  EngineNames(operation, layer.divided->configuration).c_str());
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

int Bench(const CLI::App& app, const BenchOptions& bench) {
  const auto refuse = [&](const Status& status) { return Refuse(app, status.message()); };
  const auto fail = [&](const Status& status) { return Refuse(app, status.message(), kFailed); };
  if (Status status = bench.variables.Check(); !status.ok()) return refuse(status);
  if (Status status = CheckFilesOfRun(bench.variables); !status.ok()) return refuse(status);
  const Result<std::vector<Layer>> layers = ListLayers(bench.source);
  if (!layers.ok()) return refuse(layers.status());
  if (bench.cliff && bench.variables.Given("UCUDNN_BENCHMARK_DEVICES")) {
    return Refuse(app, "--devices: --cliff runs everything on one device");
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
  Progress progress(*layers, options.rewrites_lines,
                    [&](const std::string& line) { Refuse(app, line); });
  if (bench.cliff) {
    // As cuDNN's own choice among what a program of the legacy API can name.
    const EngineSet engines =
        bench.variables.Given("UCUDNN_ENGINES") ? options.engines : EngineSet::kLegacy;
    const Result<Cliffs> cliffs = MeasureCliffs(*layers, options, engines, store.get(),
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
  app->add_flag(
         "--cliff", options->cliff,
         "run each kernel in its best engine's workspace, and within the limit or in one byte "
         "less: as cuDNN would, and divided")
      ->disable_flag_override();
  options->variables.AddTo(*app, {"UCUDNN_REPORT", "UCUDNN_TOTAL_WORKSPACE", "UCUDNN_DIVISION",
                                  "UCUDNN_SOLVER", "UCUDNN_WORKSPACE_PLAN", "UCUDNN_SPATIAL"});
  options->variables.AddAs(*app, "UCUDNN_BENCHMARK_DEVICES", "devices");
  return {app, [app, options](const ProgramWords&) { return Bench(*app, *options); }};
}

}  // namespace ucudnn::command
