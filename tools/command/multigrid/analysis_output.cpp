#include "command/multigrid/analysis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/byte_size.h"
#include "base/text.h"
#include "base/version.h"
#include "command/json.h"
#include "command/multigrid/facts.h"
#include "command/multigrid/output.h"
#include "command/numbers.h"
#include "command/text_table.h"

namespace ucudnn::command {
namespace {

using multigrid::ChosenSetting;
using multigrid::DevicesRow;
using multigrid::LayerPass;
using multigrid::ModelledRun;
using multigrid::MultigridSetting;
using multigrid::Workload;
using multigrid::WorkloadAnalysis;

const char* WorkloadName(Workload workload) {
  return workload == Workload::kTraining ? "training" : "inference";
}

// Formats as "c = 16, 3 levels, F, sum".
std::string SettingText(const MultigridSetting& setting, int levels) {
  return "c = " + Joined(setting.coarsening, ",") + ", " + std::to_string(levels) + " levels, " +
         RelaxationText(setting.c_sweeps) + ", " + multigrid::NameOf(setting.coarse);
}

// Formats a time for a table, with three digits and without an exponent.
std::string ShortMs(double time) {
  return NumberText(time >= 100 ? "%.0f" : time >= 10 ? "%.1f" : time >= 1 ? "%.2f" : "%.3f", time);
}

// Returns the number of layers of this kind in the whole network.
int64_t CountOf(const multigrid::NetworkLayers& layers, int kind) {
  int64_t count = 0;
  for (const multigrid::LayerSection& section : layers.sections) {
    count += std::count(section.kinds.begin(), section.kinds.end(), kind);
  }
  return count;
}

void PrintMachine(const NetworkAnalysis& analysis) {
  const planner::Device& device = analysis.machine.device;
  if (analysis.is_measured) {
    std::printf(
        "%s: layers are timed on one core, in double precision (CPU times)%s%s;\n"
        "a device is a core of as many as there may be, which reads the states of others in "
        "memory\n",
        analysis.machine.name.c_str(), analysis.measurement_notes.empty() ? "" : ", ",
        analysis.measurement_notes.c_str());
  } else {
    std::printf(
        "%s, %d x %s: modelled by a roofline of single precision%s, %s us to launch a kernel and\n"
        "%s us until the next that waits for it; least times, of kernels as good as the device\n",
        analysis.machine.name.c_str(), analysis.machine.Devices(), device.name.c_str(),
        analysis.layers.element_bytes == 2 ? " with numbers of 2 bytes" : "",
        NumberText("%.3g", device.launch_us).c_str(), NumberText("%.3g", device.kernel_us).c_str());
    if (!analysis.measured_on.empty()) {
      std::printf("layers of stages are measured, alone and several at once: %s\n",
                  analysis.measured_on.c_str());
    }
  }
}

void PrintLayers(const NetworkAnalysis& analysis) {
  size_t width = sizeof "layer" - 1;
  for (const multigrid::LayerKind& kind : analysis.layers.kinds) {
    width = std::max(width, kind.name.size());
  }
  const TextColumns columns = {{"layer", -static_cast<int>(width), 0},
                               {"number", 7, 2},
                               {"forward us", 10, 2},
                               {"adjoint us", 10, 2},
                               {"gradient us", 11, 2},
                               {"of device", 9, 2}};
  std::printf("\n");
  PrintHead(columns);
  for (size_t number = 0; number < analysis.layers.kinds.size(); ++number) {
    const auto kind = static_cast<int>(number);
    const auto cost = [&](LayerPass pass) { return analysis.times->Cost(pass, {kind}); };
    PrintRow(columns, {analysis.layers.kinds[number].name, Grouped(CountOf(analysis.layers, kind)),
                       ShortMs(cost(LayerPass::kForward).ms * 1e3),
                       ShortMs(cost(LayerPass::kAdjoint).ms * 1e3),
                       ShortMs(cost(LayerPass::kGradient).ms * 1e3),
                       NumberText("%.1f%%", 100 * cost(LayerPass::kForward).Share())});
  }
  const double bytes = analysis.layers.StateBytes(analysis.layers.LongestStage());
  std::vector<std::string> ways;
  for (const planner::Level& level : analysis.machine.levels) {
    const double us = level.latency_us + bytes / (level.gb_per_s * 1e3);
    ways.push_back(NumberText("%.3g", us) + " us through " + level.name);
  }
  std::printf("a state of %s goes to another device in %s\n",
              FormatByteSize(static_cast<size_t>(bytes)).c_str(), Join(ways, ", ").c_str());
}

bool IsDirect(const TriedSetting& tried) {
  return tried.cycles && *tried.cycles >= tried.estimate.direct_cycles;
}

const TextColumns kTriedColumns = {{"setting", -32, 0},
                                   {"residual 1", 10, 2},
                                   {"residual 2", 10, 2},
                                   {"rate", 7, 2},
                                   {"cycles needed", 0, 2}};

void PrintTried(const TriedSetting& tried) {
  const auto number = [](const char* format, double value) {
    return std::isfinite(value) ? NumberText(format, value) : std::string("-");
  };
  const multigrid::ConvergenceEstimate& estimate = tried.estimate;
  PrintRow(kTriedColumns,
           {SettingText(tried.setting, tried.levels), number("%.2e", estimate.first),
            number("%.2e", estimate.second), number("%.4f", estimate.Rate()),
            tried.cycles ? std::to_string(*tried.cycles) : "does not converge"},
           IsDirect(tried) ? " (direct)" : "");
}

void PrintConvergence(const NetworkAnalysis& analysis) {
  const char* const norm = NormText(analysis.settings.network.forward);
  if (analysis.reference) {
    std::printf("\na solve is to be as exact as %s of %s: a residual (%s) of %.2e\n",
                Counted(*analysis.reference->cycles, "cycle").c_str(),
                SettingText(analysis.reference->setting, analysis.reference->levels).c_str(), norm,
                analysis.tolerance);
  } else {
    std::printf("\nthe residual (%s) is to be %.2e\n", norm, analysis.tolerance);
  }
  std::printf(
      "two cycles on the host of the longest stage%s%s; adjoints are taken to converge alike\n",
      analysis.reduction.empty() ? "" : ", on a reduced network with ", analysis.reduction.c_str());
  PrintHead(kTriedColumns);
  for (const TriedSetting& tried : analysis.tried) PrintTried(tried);
  if (!analysis.verified) return;
  std::printf("on the network itself\n");
  PrintTried(*analysis.verified);
}

std::string RatioText(double numerator, double denominator) {
  return NumberText(numerator < 10 * denominator ? "%.2f" : "%.1f", numerator / denominator) + "x";
}

// Returns the two lines of heads of the table. Only devices, not cores, have columns for captured
// and launched kernels.
std::vector<TextColumns> HeadsOf(const NetworkAnalysis& analysis) {
  TextColumns first = {{"", 7, 0}, {"partitioned", 11, 2}, {"multigrid", 9, 2}, {"over", 6, 2}};
  TextColumns second = {{"devices", 7, 0}, {"ms", 11, 2}, {"ms", 9, 2}, {"serial", 6, 2}};
  const auto add = [&](const char* above, const char* below, int width) {
    first.push_back({above, width, 2});
    second.push_back({below, width, 2});
  };
  if (!analysis.is_measured) add("over", "captured", 8);
  add("over", "partitioned", 11);
  add("computing", "share", 9);
  if (!analysis.is_measured) {
    add("in streams", "ms", 10);
    add("computing", "share", 9);
  }
  second.push_back({"setting", 0, 2});
  return {first, second};
}

std::string ShareText(const ModelledRun& run) {
  return NumberText("%.1f%%", 100 * run.computing_share);
}

std::string SolveText(const ChosenSetting& chosen) {
  return SettingText(chosen.setting, chosen.levels) + ", " +
         Counted(chosen.setting.cycles, "cycle");
}

std::vector<std::string> RowOf(const NetworkAnalysis& analysis, const WorkloadAnalysis& workload,
                               const DevicesRow& row) {
  const auto time = [&](const ModelledRun& run) {
    return ShortMs(run.ms) + (run.Fits(analysis.machine.device) ? "" : "*");
  };
  std::vector<std::string> cells = {std::to_string(row.devices), time(row.partitioned)};
  if (!row.multigrid) {
    cells.emplace_back("-");
    return cells;
  }
  const ModelledRun& run = row.multigrid->run;
  cells.insert(cells.end(), {time(run), RatioText(workload.serial.ms, run.ms)});
  if (!analysis.is_measured) cells.push_back(RatioText(workload.captured.ms, run.ms));
  cells.insert(cells.end(), {RatioText(row.partitioned.ms, run.ms), ShareText(run)});
  if (!analysis.is_measured) {
    cells.insert(cells.end(), {time(*row.launched_streams), ShareText(*row.launched_streams)});
  }
  cells.push_back(SolveText(*row.multigrid));
  return cells;
}

void PrintVerdict(const NetworkAnalysis& analysis, const WorkloadAnalysis& workload) {
  const planner::Device& device = analysis.machine.device;
  const char* const name = WorkloadName(workload.workload);
  const DevicesRow* const best = workload.Best(device);
  if (best == nullptr) {
    std::printf("%s: serial is faster here: no setting converges, or none fits the memory\n", name);
    return;
  }
  const ModelledRun* const baseline = workload.Baseline(device, best->devices);
  const std::string devices = Counted(best->devices, "device");
  if (baseline == nullptr) {
    std::printf("%s: multigrid takes %s ms on %s (modelled); serial propagation fits none\n", name,
                ShortMs(best->multigrid->run.ms).c_str(), devices.c_str());
    return;
  }
  if (best->multigrid->run.ms >= baseline->ms) {
    std::printf(
        "%s: serial is faster here: %s ms; multigrid takes %s ms at best, on %s (modelled)\n", name,
        ShortMs(baseline->ms).c_str(), ShortMs(best->multigrid->run.ms).c_str(), devices.c_str());
    return;
  }
  const DevicesRow* const first = workload.FirstThatPays(device);
  std::printf(
      "%s: multigrid pays from %s on; at best %s on %s, %s ms in place of %s (modelled)\n"
      "  %s\n",
      name, Counted(first->devices, "device").c_str(),
      RatioText(baseline->ms, best->multigrid->run.ms).c_str(), devices.c_str(),
      ShortMs(best->multigrid->run.ms).c_str(), ShortMs(baseline->ms).c_str(),
      SolveText(*best->multigrid).c_str());
}

void PrintWorkload(const NetworkAnalysis& analysis, const WorkloadAnalysis& workload) {
  const planner::Device& device = analysis.machine.device;
  std::printf("\n%s, modelled; serial propagation %s%s ms", WorkloadName(workload.workload),
              ShortMs(workload.serial.ms).c_str(), workload.serial.Fits(device) ? "" : "*");
  if (!analysis.is_measured) {
    std::printf(", captured as a CUDA graph %s%s ms", ShortMs(workload.captured.ms).c_str(),
                workload.captured.Fits(device) ? "" : "*");
  }
  std::printf("\n");
  const std::vector<TextColumns> heads = HeadsOf(analysis);
  for (const TextColumns& head : heads) PrintHead(head);
  for (const DevicesRow& row : workload.rows) {
    PrintRow(heads.back(), RowOf(analysis, workload, row));
  }
}

Json RunJson(const ModelledRun& run, const planner::Device& device) {
  return {{"modelled_ms", run.ms},
          {"computing_share", run.computing_share},
          {"message_path_ms", run.message_path_ms},
          {"messages", run.messages},
          {"memory_bytes", run.memory_bytes},
          {"fits", run.Fits(device)}};
}

Json SettingJson(const MultigridSetting& setting, int levels) {
  return {{"coarsening", setting.coarsening},
          {"levels", levels},
          {"relaxation", RelaxationText(setting.c_sweeps)},
          {"coarse", multigrid::NameOf(setting.coarse)}};
}

Json TriedJson(const TriedSetting& tried) {
  Json json = SettingJson(tried.setting, tried.levels);
  json["residuals"] = {FiniteOrNull(tried.estimate.first), FiniteOrNull(tried.estimate.second)};
  json["rate"] = FiniteOrNull(tried.estimate.Rate());
  json["cycles"] = OrNull(tried.cycles);
  json["direct"] = IsDirect(tried);
  return json;
}

Json DevicesJson(const DevicesRow& row, const planner::Device& device) {
  Json json = {{"devices", row.devices},
               {"partitioned", RunJson(row.partitioned, device)},
               {"multigrid", Json()}};
  if (!row.multigrid) return json;
  Json& chosen = json["multigrid"] = RunJson(row.multigrid->run, device);
  chosen["setting"] = SettingJson(row.multigrid->setting, row.multigrid->levels);
  chosen["cycles"] = row.multigrid->setting.cycles;
  constexpr const char* kPlaceNames[] = {"distributed", "coarsest on one", "all on one"};
  chosen["coarse_levels"] = kPlaceNames[static_cast<size_t>(row.multigrid->setting.place)];
  json["launched_streams"] = RunJson(*row.launched_streams, device);
  return json;
}

Json WorkloadJson(const planner::Device& device, const WorkloadAnalysis& workload) {
  const auto rows_json = [&](const DevicesRow& row) { return DevicesJson(row, device); };
  const auto devices = [](const DevicesRow* row) {
    return row != nullptr ? Json(row->devices) : Json();
  };
  const DevicesRow* const first = workload.FirstThatPays(device);
  return {{"workload", WorkloadName(workload.workload)},
          {"serial", RunJson(workload.serial, device)},
          {"captured", RunJson(workload.captured, device)},
          {"rows", ListOf(workload.rows, rows_json)},
          {"pays", first != nullptr},
          {"pays_from", devices(first)},
          {"best_devices", devices(workload.Best(device))}};
}

// Returns the times of one layer of this kind.
Json LayerJson(const NetworkAnalysis& analysis, int kind) {
  const auto cost = [&](LayerPass pass) { return analysis.times->Cost(pass, {kind}); };
  return {{"layer", analysis.layers.kinds[static_cast<size_t>(kind)].name},
          {"number", CountOf(analysis.layers, kind)},
          {"forward_ms", cost(LayerPass::kForward).ms},
          {"adjoint_ms", cost(LayerPass::kAdjoint).ms},
          {"gradient_ms", cost(LayerPass::kGradient).ms},
          {"device_share", cost(LayerPass::kForward).Share()}};
}

}  // namespace

void PrintAnalysis(const NetworkAnalysis& analysis) {
  std::printf("%s: %s layers, %s parameters, mini-batch of %d\n", analysis.facts.network.c_str(),
              Grouped(analysis.facts.layers).c_str(), Grouped(analysis.parameters).c_str(),
              analysis.layers.batch);
  PrintMachine(analysis);
  PrintLayers(analysis);
  PrintConvergence(analysis);
  bool all_fit = true;
  for (const WorkloadAnalysis& workload : analysis.workloads) {
    PrintWorkload(analysis, workload);
    const planner::Device& device = analysis.machine.device;
    all_fit = all_fit && workload.serial.Fits(device);
    for (const DevicesRow& row : workload.rows) {
      all_fit = all_fit && row.partitioned.Fits(device) &&
                (!row.multigrid || row.multigrid->run.Fits(device));
    }
  }
  if (!all_fit) {
    std::printf("* does not fit the %s of a device\n",
                FormatByteSize(static_cast<size_t>(analysis.machine.device.memory_bytes)).c_str());
  }
  std::printf("\n");
  for (const WorkloadAnalysis& workload : analysis.workloads) PrintVerdict(analysis, workload);
}

std::string FormatAnalysis(const NetworkAnalysis& analysis) {
  Json json = {{"format", "ucudnn-multigrid-analysis"},
               {"version", 1},
               {"ucudnn", kVersion},
               {"network", analysis.facts.network},
               {"layers", analysis.facts.layers},
               {"parameters", analysis.parameters},
               {"batch", analysis.layers.batch},
               {"machine", analysis.machine.name},
               {"layer_times", analysis.is_measured           ? "cpu, measured"
                               : analysis.measured_on.empty() ? "roofline"
                                                              : "device, measured"},
               {"notes", analysis.is_measured ? analysis.measurement_notes : analysis.measured_on}};
  json["layer_kinds"] = Json::array();
  for (size_t kind = 0; kind < analysis.layers.kinds.size(); ++kind) {
    json["layer_kinds"].push_back(LayerJson(analysis, static_cast<int>(kind)));
  }
  json["norm"] = NormText(analysis.settings.network.forward);
  json["tolerance"] = analysis.tolerance;
  json["reference"] = analysis.reference ? TriedJson(*analysis.reference) : Json();
  json["stand_in"] = analysis.reduction;
  json["tried"] = ListOf(analysis.tried, TriedJson);
  json["verified"] = analysis.verified ? TriedJson(*analysis.verified) : Json();
  json["workloads"] = ListOf(analysis.workloads, [&](const WorkloadAnalysis& workload) {
    return WorkloadJson(analysis.machine.device, workload);
  });
  return JsonText(json);
}

}  // namespace ucudnn::command
