// `ucudnn bench`: measures the convolutions of a network offline, for later runs and for planning.
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "command/bench/cliff.h"
#include "command/bench/measure.h"
#include "command/command.h"
#include "command/file_check.h"
#include "command/installation.h"
#include "command/json.h"
#include "command/layer_list.h"
#include "command/numbers.h"
#include "command/text_table.h"
#include "convolution/engine_name.h"
#include "db/sqlite_store.h"
#include "db/store_choice.h"
#include "options/options.h"

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
  const auto engine = [](const auto& micro) { return micro ? EngineJson(*micro) : Json(); };
  const ConvolutionProblem& problem = measured.layer.problem;
  Json json = {{"name", measured.layer.name},
               {"op", OperationName(problem.operation)},
               {"problem", ProblemJson(problem)},
               {"undivided", engine(measured.undivided)},
               {"best_undivided", engine(measured.best_undivided)},
               {"divided", Json()}};
  if (measured.divided) {
    json["divided"] = DivisionJson(*measured.divided);
    json["divided"]["verified"] = measured.verified;
  }
  return json;
}

void PrintMeasuredJson(const Measured& measured, const Options& options) {
  std::cout << JsonText({{"format", "ucudnn-bench"},
                         {"version", 2},
                         {"device", measured.platform.device},
                         {"cudnn", measured.platform.cudnn},
                         {"driver", measured.platform.driver},
                         {"devices", measured.devices},
                         {"measured", measured.measured},
                         {"engines", EngineSetName(options.engines)},
                         {"policy", BatchSizePolicyName(options.policy)},
                         {"limit_bytes", OrNull(options.workspace_limit)},
                         {"kernels", JsonList(measured.layers, ToJson)}});
}

std::string TimeText(const std::optional<MicroConfiguration>& undivided) {
  return undivided ? NumberText("%.4g", undivided->time_ms) : "none fits";
}

// Formats over_ms / ms as "1.25x". Returns an empty text if one of the times is unknown.
std::string GainText(double over_ms, double ms) {
  return over_ms > 0 && ms > 0 ? NumberText("%.2fx", over_ms / ms) : "";
}

void PrintTable(const Measured& measured, const Options& options) {
  if (measured.devices > 1) std::cout << measured.devices << " x ";
  std::cout << measured.platform.device << ", cuDNN "
            << CudnnVersion(static_cast<size_t>(measured.platform.cudnn)) << ", workspace limit "
            << (options.workspace_limit ? FormatByteSize(*options.workspace_limit) : "none")
            << ", policy " << BatchSizePolicyName(options.policy) << ", engines "
            << EngineSetName(options.engines) << ", " << measured.measured
            << " measurements made now\n"
            << "undivided: by the fastest legacy algorithm; best: undivided by the fastest engine "
               "of any API; engine, division: what each gains\n"
            << std::flush;
  const TextColumns columns = {{"layer", -20, 0}, {"operation", -16},    {"undivided ms", 12},
                               {"best ms", 10},   {"divided ms", 10},    {"engine", 8},
                               {"division", 8},   {"workspace", -10, 2}, {"micro-batches", -20},
                               {"engines"}};
  PrintHead(columns);
  for (const MeasuredLayer& layer : measured.layers) {
    const Operation operation = layer.layer.problem.operation;
    const double best_ms = layer.best_undivided ? layer.best_undivided->time_ms : 0;
    const double divided_ms = layer.divided ? layer.divided->configuration.TimeMs() : 0;
    std::vector<std::string> cells = {
        layer.layer.name.substr(0, 20),
        OperationName(operation),
        TimeText(layer.undivided),
        TimeText(layer.best_undivided),
        layer.divided ? NumberText("%.4g", divided_ms) : "-",
        GainText(layer.undivided ? layer.undivided->time_ms : 0, best_ms),
        GainText(best_ms, divided_ms)};
    if (layer.divided) {
      const Configuration& configuration = layer.divided->configuration;
      cells.insert(cells.end(),
                   {FormatByteSize(configuration.WorkspaceBytes()), DivisionText(*layer.divided),
                    EngineNames(operation, configuration)});
    }
    PrintRow(columns, cells);
  }
}

// Reports divisions whose output differed from the undivided output, or could not be compared with
// it. Returns true if an output differed.
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

Result<int> Bench(const CLI::App& app, const BenchOptions& bench) {
  const auto fail = [&](const Status& status) { return Refuse(app, status.message(), kFailed); };
  UCUDNN_RETURN_IF_ERROR(bench.variables.Check());
  UCUDNN_RETURN_IF_ERROR(CheckFilesOfRun(bench.variables));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Layer> layers, ListLayers(bench.source));
  if (bench.cliff && bench.variables.Given("UCUDNN_BENCHMARK_DEVICES")) {
    return Status::Error("--devices: --cliff runs everything on one device");
  }
  bench.variables.Export();
  if (bench.host) UCUDNN_RETURN_IF_ERROR(UseStandIns());
  const Options& options = ProcessOptions();
  if (options.workspace_limit_auto) {
    return Status::Error(
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
  Progress progress(layers, options.rewrites_lines,
                    [&](const std::string& line) { Refuse(app, line); });
  if (bench.cliff) {
    // The default is engines of the legacy API, because cuDNN itself chooses from these if a
    // program calls that API.
    const EngineSet engines =
        bench.variables.Given("UCUDNN_ENGINES") ? options.engines : EngineSet::kLegacy;
    const Result<Cliffs> cliffs = MeasureCliffs(layers, options, engines, store.get(),
                                                [&](const Layer& layer) { progress.Begin(layer); });
    progress.Clear();
    if (!cliffs.ok()) return fail(cliffs.status());
    (bench.json ? PrintCliffJson : PrintCliffTable)(*cliffs, options);
    return 0;
  }
  const Result<Measured> measured = MeasureLayers(layers, options, store.get(), progress);
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
  AddFlag(*app, "--host", options->host, "measure on the CPU stand-in: these are CPU times");
  AddFlag(*app, "--json", options->json, "print JSON instead of a table");
  AddFlag(*app, "--cliff", options->cliff,
          "run each kernel in its best engine's workspace, and within the limit or in one byte "
          "less: as cuDNN would, and divided");
  options->variables.AddTo(*app, {"UCUDNN_REPORT", "UCUDNN_TOTAL_WORKSPACE", "UCUDNN_DIVISION",
                                  "UCUDNN_SOLVER", "UCUDNN_WORKSPACE_PLAN", "UCUDNN_SPATIAL"});
  options->variables.AddAs(*app, "UCUDNN_BENCHMARK_DEVICES", "devices");
  return {app, [app, options](const ProgramWords&) { return Bench(*app, *options); }};
}

}  // namespace ucudnn::command
