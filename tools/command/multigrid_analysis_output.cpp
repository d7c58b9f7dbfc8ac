#include "command/multigrid_analysis_output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/byte_size.h"
#include "base/text.h"
#include "base/version.h"
#include "command/multigrid_facts.h"
#include "command/multigrid_output.h"
#include "command/number_text.h"

namespace ucudnn::command {
namespace {

using multigrid::ChosenSetting;
using multigrid::DevicesRow;
using multigrid::LayerPass;
using multigrid::ModelledRun;
using multigrid::MultigridSetting;
using multigrid::Workload;
using multigrid::WorkloadAnalysis;
using nlohmann::ordered_json;

const char* WorkloadName(Workload workload) {
  return workload == Workload::kTraining ? "training" : "inference";
}

std::string SweepsText(int c_sweeps) {
  std::string text = "F";
  for (int sweep = 0; sweep < c_sweeps; ++sweep) text += "CF";
  return text;
}

// "c = 16, 3 levels, F, sum".
std::string SettingText(const MultigridSetting& setting, int levels) {
  return "c = " + Joined(setting.coarsening, ",") + ", " + std::to_string(levels) + " levels, " +
         SweepsText(setting.solve.c_sweeps) + ", " + multigrid::NameOf(setting.coarse);
}

// Milliseconds in a table: three digits, never in powers of ten.
std::string Milliseconds(double ms) {
  return NumberText(ms >= 100 ? "%.0f" : ms >= 10 ? "%.1f" : ms >= 1 ? "%.2f" : "%.3f", ms);
}

// Layers of this kind in the whole network.
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
        "%s, %d x %s: modelled by a roofline of single precision, %s us to launch a kernel and\n"
        "%s us until the next that waits for it; least times, of kernels as good as the device\n",
        analysis.machine.name.c_str(), analysis.machine.Devices(), device.name.c_str(),
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
  std::printf("\n%-*s  %7s  %10s  %10s  %11s  %9s\n", static_cast<int>(width), "layer", "number",
              "forward us", "adjoint us", "gradient us", "of device");
  for (size_t number = 0; number < analysis.layers.kinds.size(); ++number) {
    const auto kind = static_cast<int>(number);
    const multigrid::RunCost forward = analysis.times->Cost(LayerPass::kForward, {kind});
    std::printf("%-*s  %7s  %10s  %10s  %11s  %8.1f%%\n", static_cast<int>(width),
                analysis.layers.kinds[number].name.c_str(),
                Grouped(CountOf(analysis.layers, kind)).c_str(),
                Milliseconds(forward.ms * 1e3).c_str(),
                Milliseconds(analysis.times->Cost(LayerPass::kAdjoint, {kind}).ms * 1e3).c_str(),
                Milliseconds(analysis.times->Cost(LayerPass::kGradient, {kind}).ms * 1e3).c_str(),
                100 * forward.Share());
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

void PrintTried(const TriedSetting& tried) {
  const auto number = [](const char* format, double value) {
    return std::isfinite(value) ? NumberText(format, value) : std::string("-");
  };
  const multigrid::ConvergenceEstimate& estimate = tried.estimate;
  std::printf("%-32s  %10s  %10s  %7s  %s%s\n", SettingText(tried.setting, tried.levels).c_str(),
              number("%.2e", estimate.first).c_str(), number("%.2e", estimate.second).c_str(),
              number("%.4f", estimate.Rate()).c_str(),
              tried.cycles ? std::to_string(*tried.cycles).c_str() : "does not converge",
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
      analysis.stand_in.empty() ? "" : ", on a stand-in with ", analysis.stand_in.c_str());
  std::printf("%-32s  %10s  %10s  %7s  cycles needed\n", "setting", "residual 1", "residual 2",
              "rate");
  for (const TriedSetting& tried : analysis.tried) PrintTried(tried);
  if (!analysis.verified) return;
  std::printf("on the network itself\n");
  PrintTried(*analysis.verified);
}

std::string RatioText(double numerator, double denominator) {
  return NumberText(numerator < 10 * denominator ? "%.2f" : "%.1f", numerator / denominator) + "x";
}

// What is compared, beside the number of devices: captured and launched kernels are of devices.
void PrintHead(const NetworkAnalysis& analysis) {
  std::printf("\n%7s  %11s  %9s  %6s", "", "partitioned", "multigrid", "over");
  if (!analysis.is_measured) std::printf("  %8s", "over");
  std::printf("  %11s  %9s", "over", "computing");
  if (!analysis.is_measured) std::printf("  %10s  %9s", "in streams", "computing");
  std::printf("\n%7s  %11s  %9s  %6s", "devices", "ms", "ms", "serial");
  if (!analysis.is_measured) std::printf("  %8s", "captured");
  std::printf("  %11s  %9s", "partitioned", "share");
  if (!analysis.is_measured) std::printf("  %10s  %9s", "ms", "share");
  std::printf("  setting\n");
}

void PrintRow(const NetworkAnalysis& analysis, const WorkloadAnalysis& workload,
              const DevicesRow& row) {
  const planner::Device& device = analysis.machine.device;
  const auto time = [&](const ModelledRun& run) {
    return Milliseconds(run.ms) + (run.Fits(device) ? "" : "*");
  };
  std::printf("%7d  %11s", row.devices, time(row.partitioned).c_str());
  if (!row.multigrid) {
    std::printf("  %9s\n", "-");
    return;
  }
  const ChosenSetting& chosen = *row.multigrid;
  const double ms = chosen.run.ms;
  std::printf("  %9s  %6s", time(chosen.run).c_str(), RatioText(workload.serial.ms, ms).c_str());
  if (!analysis.is_measured) {
    std::printf("  %8s", RatioText(workload.captured.ms, ms).c_str());
  }
  std::printf("  %11s  %8.1f%%", RatioText(row.partitioned.ms, ms).c_str(),
              100 * chosen.run.computing_share);
  if (!analysis.is_measured) {
    std::printf("  %10s  %8.1f%%", time(*row.launched_streams).c_str(),
                100 * row.launched_streams->computing_share);
  }
  std::printf("  %s, %s\n", SettingText(chosen.setting, chosen.levels).c_str(),
              Counted(chosen.setting.solve.cycles, "cycle").c_str());
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
  const std::string setting = SettingText(best->multigrid->setting, best->multigrid->levels) +
                              ", " + Counted(best->multigrid->setting.solve.cycles, "cycle");
  const std::string devices = Counted(best->devices, "device");
  if (baseline == nullptr) {
    std::printf("%s: multigrid takes %s ms on %s (modelled); serial propagation fits none\n", name,
                Milliseconds(best->multigrid->run.ms).c_str(), devices.c_str());
    return;
  }
  if (best->multigrid->run.ms >= baseline->ms) {
    std::printf(
        "%s: serial is faster here: %s ms; multigrid takes %s ms at best, on %s (modelled)\n", name,
        Milliseconds(baseline->ms).c_str(), Milliseconds(best->multigrid->run.ms).c_str(),
        devices.c_str());
    return;
  }
  const DevicesRow* const first = workload.FirstThatPays(device);
  std::printf(
      "%s: multigrid pays from %s on; at best %s on %s, %s ms in place of %s (modelled)\n"
      "  %s\n",
      name, Counted(first->devices, "device").c_str(),
      RatioText(baseline->ms, best->multigrid->run.ms).c_str(), devices.c_str(),
      Milliseconds(best->multigrid->run.ms).c_str(), Milliseconds(baseline->ms).c_str(),
      setting.c_str());
}

void PrintWorkload(const NetworkAnalysis& analysis, const WorkloadAnalysis& workload) {
  const planner::Device& device = analysis.machine.device;
  std::printf("\n%s, modelled; serial propagation %s%s ms", WorkloadName(workload.workload),
              Milliseconds(workload.serial.ms).c_str(), workload.serial.Fits(device) ? "" : "*");
  if (!analysis.is_measured) {
    std::printf(", captured as a CUDA graph %s%s ms", Milliseconds(workload.captured.ms).c_str(),
                workload.captured.Fits(device) ? "" : "*");
  }
  PrintHead(analysis);
  for (const DevicesRow& row : workload.rows) PrintRow(analysis, workload, row);
}

ordered_json RunJson(const ModelledRun& run, const planner::Device& device) {
  ordered_json json;
  json["modelled_ms"] = run.ms;
  json["computing_share"] = run.computing_share;
  json["message_path_ms"] = run.message_path_ms;
  json["messages"] = run.messages;
  json["memory_bytes"] = run.memory_bytes;
  json["fits"] = run.Fits(device);
  return json;
}

ordered_json SettingJson(const MultigridSetting& setting, int levels) {
  ordered_json json;
  json["coarsening"] = setting.coarsening;
  json["levels"] = levels;
  json["relaxation"] = SweepsText(setting.solve.c_sweeps);
  json["coarse"] = multigrid::NameOf(setting.coarse);
  return json;
}

ordered_json TriedJson(const TriedSetting& tried) {
  const auto number = [](double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
  };
  ordered_json json = SettingJson(tried.setting, tried.levels);
  json["residuals"] = {number(tried.estimate.first), number(tried.estimate.second)};
  json["rate"] = number(tried.estimate.Rate());
  json["cycles"] = tried.cycles ? ordered_json(*tried.cycles) : ordered_json(nullptr);
  json["direct"] = IsDirect(tried);
  return json;
}

const char* PlaceName(multigrid::CoarsePlace place) {
  switch (place) {
    case multigrid::CoarsePlace::kDistributed:
      return "distributed";
    case multigrid::CoarsePlace::kCoarsestOnOne:
      return "coarsest on one";
    case multigrid::CoarsePlace::kAllOnOne:
      return "all on one";
  }
  return "";
}

ordered_json WorkloadJson(const NetworkAnalysis& analysis, const WorkloadAnalysis& workload) {
  const planner::Device& device = analysis.machine.device;
  ordered_json json;
  json["workload"] = WorkloadName(workload.workload);
  json["serial"] = RunJson(workload.serial, device);
  json["captured"] = RunJson(workload.captured, device);
  ordered_json rows = ordered_json::array();
  for (const DevicesRow& row : workload.rows) {
    ordered_json one;
    one["devices"] = row.devices;
    one["partitioned"] = RunJson(row.partitioned, device);
    one["multigrid"] = nullptr;
    if (row.multigrid) {
      one["multigrid"] = RunJson(row.multigrid->run, device);
      one["multigrid"]["setting"] = SettingJson(row.multigrid->setting, row.multigrid->levels);
      one["multigrid"]["cycles"] = row.multigrid->setting.solve.cycles;
      one["multigrid"]["coarse_levels"] = PlaceName(row.multigrid->setting.solve.coarse);
      one["launched_streams"] = RunJson(*row.launched_streams, device);
    }
    rows.push_back(std::move(one));
  }
  json["rows"] = std::move(rows);
  const DevicesRow* const first = workload.FirstThatPays(device);
  const DevicesRow* const best = workload.Best(device);
  json["pays"] = first != nullptr;
  json["pays_from"] = first != nullptr ? ordered_json(first->devices) : ordered_json(nullptr);
  json["best_devices"] = best != nullptr ? ordered_json(best->devices) : ordered_json(nullptr);
  return json;
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
  ordered_json json;
  json["format"] = "ucudnn-multigrid-analysis";
  json["version"] = 1;
  json["ucudnn"] = kVersion;
  json["network"] = analysis.facts.network;
  json["layers"] = analysis.facts.layers;
  json["parameters"] = analysis.parameters;
  json["batch"] = analysis.layers.batch;
  json["machine"] = analysis.machine.name;
  json["layer_times"] = analysis.is_measured           ? "cpu, measured"
                        : analysis.measured_on.empty() ? "roofline"
                                                       : "device, measured";
  json["notes"] = analysis.is_measured ? analysis.measurement_notes : analysis.measured_on;
  ordered_json kinds = ordered_json::array();
  for (size_t number = 0; number < analysis.layers.kinds.size(); ++number) {
    const auto kind = static_cast<int>(number);
    ordered_json one;
    one["layer"] = analysis.layers.kinds[number].name;
    one["number"] = CountOf(analysis.layers, kind);
    one["forward_ms"] = analysis.times->Cost(LayerPass::kForward, {kind}).ms;
    one["adjoint_ms"] = analysis.times->Cost(LayerPass::kAdjoint, {kind}).ms;
    one["gradient_ms"] = analysis.times->Cost(LayerPass::kGradient, {kind}).ms;
    one["device_share"] = analysis.times->Cost(LayerPass::kForward, {kind}).Share();
    kinds.push_back(std::move(one));
  }
  json["layer_kinds"] = std::move(kinds);
  json["norm"] = NormText(analysis.settings.network.forward);
  json["tolerance"] = analysis.tolerance;
  json["reference"] = analysis.reference ? TriedJson(*analysis.reference) : ordered_json(nullptr);
  json["stand_in"] = analysis.stand_in;
  ordered_json tried = ordered_json::array();
  for (const TriedSetting& one : analysis.tried) tried.push_back(TriedJson(one));
  json["tried"] = std::move(tried);
  json["verified"] = analysis.verified ? TriedJson(*analysis.verified) : ordered_json(nullptr);
  ordered_json workloads = ordered_json::array();
  for (const WorkloadAnalysis& workload : analysis.workloads) {
    workloads.push_back(WorkloadJson(analysis, workload));
  }
  json["workloads"] = std::move(workloads);
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ucudnn::command
