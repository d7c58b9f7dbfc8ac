#include "command/multigrid/scaling.h"

#include <algorithm>
#include <cstdio>

#include "command/numbers.h"
#include "planner/report/line_chart.h"
#include "planner/report/page.h"

namespace ucudnn::command {
namespace {

using planner::Cell;
using planner::Element;

planner::LineChart ScalingChart(const std::string& id, const std::string& title) {
  planner::LineChart chart;
  chart.id = id.c_str();
  chart.title = title;
  chart.x_label = "devices";
  chart.y_label = "ms, modelled";
  chart.is_logarithmic = true;
  chart.is_logarithmic_x = true;
  return chart;
}

// Adds a line with the points ms_of(row), times in milliseconds. Unset times have no point.
template <typename MsOf>
void AddScalingLine(const std::string& name, const ReportedWorkload& workload, MsOf&& ms_of,
                    planner::LineChart& chart) {
  planner::Line line = {name, {}};
  for (const ReportedScaling& row : workload.rows) {
    const std::optional<double> ms = ms_of(row);
    if (!ms) continue;
    line.points.push_back(
        {row.devices, *ms,
         name + ", " + Counted(row.devices, "device") + NumberText(": %.4g ms", *ms)});
  }
  if (!line.points.empty()) chart.lines.push_back(std::move(line));
}

std::optional<double> TimeOf(const std::optional<ReportedRun>& run) {
  return run ? std::optional(run->ms) : std::nullopt;
}

// Draws figures 6a, 6b and 7 of Kirby et al.
Element TimesChart(const MultigridAnalysisReport& analysis, const ReportedWorkload& workload,
                   const std::string& id) {
  planner::LineChart chart =
      ScalingChart(id, "Strong scaling of " + workload.name + ": " + analysis.network + " on " +
                           analysis.machine + " (modelled)");
  AddScalingLine(
      "serial propagation, 1 device", workload,
      [&](const ReportedScaling&) { return std::optional(workload.serial.ms); }, chart);
  if (!analysis.HasMeasuredLayers()) {
    AddScalingLine(
        "the same as a CUDA graph", workload,
        [&](const ReportedScaling&) { return std::optional(workload.captured.ms); }, chart);
  }
  AddScalingLine(
      "partitioned", workload,
      [](const ReportedScaling& row) { return std::optional(row.partitioned.ms); }, chart);
  AddScalingLine(
      "multigrid", workload, [](const ReportedScaling& row) { return TimeOf(row.multigrid); },
      chart);
  AddScalingLine(
      "multigrid in streams", workload,
      [](const ReportedScaling& row) { return TimeOf(row.launched_streams); }, chart);
  return Draw(chart);
}

// Draws figure 6c of Kirby et al.
Element SharesChart(const MultigridAnalysisReport& analysis, const ReportedWorkload& workload,
                    const std::string& id) {
  planner::LineChart chart =
      ScalingChart(id, "Computation and communication of " + workload.name + ": " +
                           analysis.network + " on " + analysis.machine + " (modelled)");
  const auto add = [&](const std::string& name, std::optional<ReportedRun> ReportedScaling::*run) {
    const auto part = [&](double (ReportedRun::*ms)() const) {
      return [run, ms](const ReportedScaling& row) {
        const std::optional<ReportedRun>& one = row.*run;
        return one ? std::optional(((*one).*ms)()) : std::nullopt;
      };
    };
    AddScalingLine(name + ": computing", workload, part(&ReportedRun::ComputingMs), chart);
    AddScalingLine(name + ": waiting for states", workload, part(&ReportedRun::WaitingMs), chart);
  };
  add("multigrid", &ReportedScaling::multigrid);
  add("in streams", &ReportedScaling::launched_streams);
  return Draw(chart);
}

Cell TimeOrNothing(const std::optional<ReportedRun>& run) {
  if (!run) return "";
  return {NumberText("%.4g", run->ms) + (run->fits ? "" : " *"), run->ms};
}

Cell ShareOrNothing(const std::optional<ReportedRun>& run) {
  if (!run) return "";
  return {NumberText("%.1f %%", 100 * run->computing_share), run->computing_share};
}

Element ScalingTable(const ReportedWorkload& workload, const std::string& id) {
  using Row = ReportedScaling;
  const auto over = [](double baseline, const std::optional<ReportedRun>& run) -> Cell {
    if (!run) return "";
    return {NumberText("%.2f x", baseline / run->ms), baseline / run->ms};
  };
  return planner::TableOf<Row>(
      id.c_str(), "Times in ms, modelled. A heading sorts by its column.",
      {{"devices", true, [](const Row& row) { return planner::CountCell(row.devices); }},
       {"partitioned", true, [](const Row& row) { return TimeOrNothing(row.partitioned); }},
       {"multigrid", true, [](const Row& row) { return TimeOrNothing(row.multigrid); }},
       {"over serial", true,
        [&](const Row& row) { return over(workload.serial.ms, row.multigrid); }},
       {"over partitioned", true,
        [&](const Row& row) { return over(row.partitioned.ms, row.multigrid); }},
       {"computing", true, [](const Row& row) { return ShareOrNothing(row.multigrid); }},
       {"in streams", true, [](const Row& row) { return TimeOrNothing(row.launched_streams); }},
       {"computing", true, [](const Row& row) { return ShareOrNothing(row.launched_streams); }},
       {"setting", false,
        [](const Row& row) {
          return row.multigrid ? row.setting.Text() + ", " + Counted(row.cycles, "cycle") : "";
        }}},
      workload.rows);
}

std::string AboutText(const MultigridAnalysisReport& analysis) {
  std::string text = analysis.network + ", " + Grouped(analysis.layers) + " layers, " +
                     Grouped(analysis.parameters) + " parameters, mini-batch of " +
                     Grouped(analysis.batch) + ", on " + analysis.machine +
                     " (single layers: " + analysis.layer_times + ").";
  if (analysis.tolerance) {
    text += NumberText(" Solves reach a residual of %.3g", *analysis.tolerance) + " (" +
            analysis.norm + ").";
  }
  return text +
         " Every time is modelled by a simulation of the solve's tasks. Multigrid is the fastest "
         "setting on so many devices, by default with the layers of all blocks of a device as one; "
         "in streams is the same setting with a stream for each block and each kernel launched by "
         "the host. Computing is the mean over the devices of the time in which a kernel runs or "
         "is launched; in the rest they wait for states of others.";
}

}  // namespace

Element ScalingSection(const MultigridAnalysisReport& analysis, size_t number) {
  const std::string id = "scaling-" + std::to_string(number);
  Element section = planner::Section(id.c_str(), "Strong scaling of " + analysis.network);
  section.Add(planner::Paragraph(AboutText(analysis)));
  bool all_fit = true;
  for (const ReportedWorkload& workload : analysis.workloads) {
    const std::string of_workload =
        id + "-" + std::to_string(&workload - analysis.workloads.data());
    section.Add(TimesChart(analysis, workload, of_workload + "-times"));
    section.Add(SharesChart(analysis, workload, of_workload + "-shares"));
    section.Add(ScalingTable(workload, of_workload + "-table"));
    for (const ReportedScaling& row : workload.rows) {
      all_fit = all_fit && row.partitioned.fits && (!row.multigrid || row.multigrid->fits);
    }
  }
  if (!all_fit) section.Add(planner::Paragraph("* does not fit the memory of a device."));
  return section;
}

}  // namespace ucudnn::command
