#include "command/multigrid/analysis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/multigrid/analysis_report.h"
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

ReportedSetting ReportOf(const MultigridSetting& setting, int levels) {
  return {{setting.coarsening.begin(), setting.coarsening.end()},
          levels,
          RelaxationText(setting.c_sweeps),
          multigrid::NameOf(setting.coarse)};
}

// Formats a time for a table with three digits, or three decimals below 1, without an exponent.
std::string ShortMs(double time) {
  return NumberText(time >= 100 ? "%.0f" : time >= 10 ? "%.1f" : time >= 1 ? "%.2f" : "%.3f", time);
}

// Returns the times of one layer of this kind, and the number of such layers in the network.
ReportedLayerKind ReportOf(const NetworkAnalysis& analysis, int kind) {
  int64_t number = 0;
  for (const multigrid::LayerSection& section : analysis.layers.sections) {
    number += std::count(section.kinds.begin(), section.kinds.end(), kind);
  }
  const auto cost = [&](LayerPass pass) { return analysis.times->Cost(pass, {kind}); };
  return {analysis.layers.kinds[static_cast<size_t>(kind)].name,
          number,
          cost(LayerPass::kForward).ms,
          cost(LayerPass::kAdjoint).ms,
          cost(LayerPass::kGradient).ms,
          cost(LayerPass::kForward).Share()};
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
    const ReportedLayerKind kind = ReportOf(analysis, static_cast<int>(number));
    PrintRow(columns, {kind.layer, Grouped(kind.number), ShortMs(kind.forward_ms * 1e3),
                       ShortMs(kind.adjoint_ms * 1e3), ShortMs(kind.gradient_ms * 1e3),
                       NumberText("%.1f%%", 100 * kind.device_share)});
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

ReportedTried ReportOf(const TriedSetting& tried) {
  const multigrid::ConvergenceEstimate& estimate = tried.estimate;
  return {ReportOf(tried.setting, tried.levels),
          {estimate.first, estimate.second},
          estimate.Rate(),
          tried.cycles,
          IsDirect(tried)};
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
           {ReportOf(tried.setting, tried.levels).Text(), number("%.2e", estimate.first),
            number("%.2e", estimate.second), number("%.4f", estimate.Rate()),
            tried.cycles ? std::to_string(*tried.cycles) : "does not converge"},
           IsDirect(tried) ? " (direct)" : "");
}

void PrintConvergence(const NetworkAnalysis& analysis) {
  const char* const norm = NormText(analysis.settings.network.forward);
  if (analysis.reference) {
    std::printf("\na solve is to be as exact as %s of %s: a residual (%s) of %.2e\n",
                Counted(*analysis.reference->cycles, "cycle").c_str(),
                ReportOf(*analysis.reference).Text().c_str(), norm, analysis.tolerance);
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

// Returns the table's two lines of column titles. If times are CPU times, there are no columns for
// CUDA graphs and streams.
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
  return ReportOf(chosen.setting, chosen.levels).Text() + ", " +
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

ReportedRun ReportOf(const ModelledRun& run, const planner::Device& device) {
  return {run, run.Fits(device)};
}

ReportedScaling ReportOf(const DevicesRow& row, const planner::Device& device) {
  ReportedScaling told;
  told.devices = row.devices;
  told.partitioned = ReportOf(row.partitioned, device);
  if (!row.multigrid) return told;
  constexpr const char* kPlaceNames[] = {"distributed", "coarsest on one", "all on one"};
  const MultigridSetting& setting = row.multigrid->setting;
  told.multigrid = ReportOf(row.multigrid->run, device);
  told.launched_streams = ReportOf(*row.launched_streams, device);
  told.setting = ReportOf(setting, row.multigrid->levels);
  told.cycles = setting.cycles;
  told.coarse_levels = kPlaceNames[static_cast<size_t>(setting.place)];
  return told;
}

ReportedWorkload ReportOf(const WorkloadAnalysis& workload, const planner::Device& device) {
  ReportedWorkload told;
  told.name = WorkloadName(workload.workload);
  told.serial = ReportOf(workload.serial, device);
  told.captured = ReportOf(workload.captured, device);
  for (const DevicesRow& row : workload.rows) told.rows.push_back(ReportOf(row, device));
  if (const DevicesRow* first = workload.FirstThatPays(device)) told.pays_from = first->devices;
  if (const DevicesRow* best = workload.Best(device)) told.best_devices = best->devices;
  return told;
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
  MultigridAnalysisReport report;
  report.network = analysis.facts.network;
  report.layers = analysis.facts.layers;
  report.parameters = analysis.parameters;
  report.batch = analysis.layers.batch;
  report.machine = analysis.machine.name;
  report.layer_times = analysis.is_measured           ? "cpu, measured"
                       : analysis.measured_on.empty() ? "roofline"
                                                      : "device, measured";
  report.notes = analysis.is_measured ? analysis.measurement_notes : analysis.measured_on;
  for (size_t kind = 0; kind < analysis.layers.kinds.size(); ++kind) {
    report.layer_kinds.push_back(ReportOf(analysis, static_cast<int>(kind)));
  }
  report.norm = NormText(analysis.settings.network.forward);
  report.tolerance = analysis.tolerance;
  if (analysis.reference) report.reference = ReportOf(*analysis.reference);
  report.stand_in = analysis.reduction;
  for (const TriedSetting& tried : analysis.tried) report.tried.push_back(ReportOf(tried));
  if (analysis.verified) report.verified = ReportOf(*analysis.verified);
  for (const WorkloadAnalysis& workload : analysis.workloads) {
    report.workloads.push_back(ReportOf(workload, analysis.machine.device));
  }
  return json::Write(report, 0) + "\n";
}

}  // namespace ucudnn::command
