#include "command/report/page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/json.h"
#include "command/numbers.h"
#include "command/report/spatial_page.h"
#include "convolution/engine_name.h"
#include "planner/report/chart.h"
#include "planner/report/page.h"

namespace ucudnn::command {
namespace {

using namespace ucudnn::planner;

std::string Extents(const ConvolutionProblem& problem, const Spatial& extents) {
  std::string text = problem.spatial_rank == 3 ? std::to_string(extents[0]) + "x" : "";
  return text + std::to_string(extents[1]) + "x" + std::to_string(extents[2]);
}

std::string GainText(double gain) { return NumberText("%.2fx", gain); }

Cell GainCell(double gain) { return std::isfinite(gain) ? Cell(GainText(gain), gain) : Cell(""); }

Element Head(const RunReport& report, const std::string& source) {
  Descriptions list("about");
  list.Add("report",
           source + (report.offline ? ", planned offline from measurements" : ", of a run"));
  list.Add("device", report.device);
  list.Add("cuDNN",
           report.cudnn == 0 ? "not known" : CudnnVersion(static_cast<size_t>(report.cudnn)));
  list.Add("ucudnn", report.ucudnn);
  list.Add("mode", report.mode);
  list.Add("policy", report.policy);
  list.Add("measurements made by this process",
           report.measured ? std::to_string(*report.measured) : "");
  return list.Take();
}

// Milliseconds of one kernel, or sums over all kernels whose times are known.
struct Times {
  double undivided_ms = 0;  // by the fastest engine of the program's API; offline: best_ms
  double best_ms = 0;       // undivided, by the fastest engine of any API
  double whole_ms = 0;      // in a run, planned_ms if the kernel is undivided; otherwise best_ms
  double planned_ms = 0;

  double BetterEngine() const { return undivided_ms / whole_ms; }
  double Division() const { return whole_ms / planned_ms; }
};

std::optional<Times> TimesOf(const ReportedKernel& kernel, bool offline) {
  const std::optional<double> best = kernel.BestUndividedMs(offline);
  const std::optional<double> undivided = offline ? best : kernel.UndividedMs();
  if (!undivided || !best || !kernel.plan_ms) return std::nullopt;
  return Times{*undivided, *best, kernel.divided() || offline ? *best : *kernel.plan_ms,
               *kernel.plan_ms};
}

struct Totals {
  Times times;
  size_t kernels = 0;
};

Totals TotalsOf(const RunReport& report, bool by_calls) {
  Totals totals;
  for (const ReportedKernel& kernel : report.kernels) {
    const std::optional<Times> times = TimesOf(kernel, report.offline);
    if (!times) continue;
    const double calls = by_calls ? static_cast<double>(kernel.calls) : 1;
    totals.times.undivided_ms += times->undivided_ms * calls;
    totals.times.best_ms += times->best_ms * calls;
    totals.times.whole_ms += times->whole_ms * calls;
    totals.times.planned_ms += times->planned_ms * calls;
    ++totals.kernels;
  }
  return totals;
}

size_t DividedKernels(const RunReport& report) {
  return static_cast<size_t>(std::count_if(report.kernels.begin(), report.kernels.end(),
                                           [](const auto& kernel) { return kernel.divided(); }));
}

// Lists the reasons why kernels are not divided, the most frequent reason first. REQUIRES: `report`
// is the report of a run, not an offline plan.
Element ReasonTable(const RunReport& report) {
  std::map<std::string, int> counts;
  for (const ReportedKernel& kernel : report.kernels) {
    if (!kernel.divided()) ++counts[kernel.reason];
  }
  std::vector<std::pair<std::string, int>> reasons(counts.begin(), counts.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table("reason-table", "Why the others are not divided.", {{"why"}, {"kernels", true}},
              false);
  for (const auto& [reason, count] : reasons) {
    table.AddRow({reason, CountCell(count)});
  }
  return table.Take();
}

void AddTotal(const char* id, const char* what, const Times& times, const RunReport& report,
              Descriptions& list) {
  const bool offline = report.offline;
  Element value("dd");
  value.Set("id", id).Set("data-undivided", Coordinate(times.undivided_ms));
  value.Set("data-best", Coordinate(times.best_ms));
  value.Set("data-planned", Coordinate(times.planned_ms));
  std::string text = Milliseconds(times.undivided_ms) + " undivided, ";
  if (!offline) text += Milliseconds(times.best_ms) + " best undivided, ";
  text += Milliseconds(times.planned_ms) + " as planned";
  if (times.whole_ms > 0 && times.planned_ms > 0) {
    text += ": ";
    if (!offline) text += GainText(times.BetterEngine()) + " by better engines, ";
    text += offline || DividedKernels(report) > 0 ? GainText(times.Division()) + " by division"
                                                  : "nothing is divided yet";
  }
  list.Add(what, std::move(value.Text(text)));
}

std::string MeaningOfTimes(const RunReport& report) {
  const std::string of =
      "Times are those of the measurements behind the plans, not of the calls "
      "themselves; ";
  if (!report.offline) {
    return of +
           "undivided is the fastest undivided engine of the API that the program calls, best "
           "undivided that of any API, both within the workspace limit. A better engine gains from "
           "the first to the second, division from the second to what runs; of a kernel that is "
           "not divided, the engine that runs gains all.";
  }
  return of + "undivided is the fastest undivided engine within " +
         (report.undivided_limit_bytes
              ? FormatByteSize(*report.undivided_limit_bytes) + " of workspace"
              : "any workspace") +
         ".";
}

Element TotalsChart(const Times& times, bool offline) {
  BarChart chart;
  chart.id = "totals-chart";
  chart.title = "One call of each kernel";
  const auto add = [&](const char* name, double ms, int colour) {
    const std::string text = Milliseconds(ms);
    chart.bars.push_back({name, {{ms, colour, "", std::string(name) + ": " + text}}, text});
  };
  add("undivided", times.undivided_ms, 8);
  if (!offline) add("best undivided", times.best_ms, 1);
  add("as planned", times.planned_ms, 0);
  return Draw(chart);
}

Element TotalsSection(const RunReport& report) {
  Element section = Section("totals", "Against undivided convolutions");
  const size_t divided = DividedKernels(report);
  const std::string all = std::to_string(report.kernels.size());
  const Totals once = TotalsOf(report, false);
  section.Add(Paragraph(all + " kernels, " + std::to_string(divided) + " of them divided."));
  if (!report.offline && divided < report.kernels.size()) section.Add(ReasonTable(report));
  if (once.kernels == 0) {
    return std::move(
        section.Add(Paragraph("No kernel has both its own and an undivided engine's time.")));
  }
  Descriptions list;
  AddTotal("total-once", "one call of each kernel", once.times, report, list);
  if (!report.offline) {
    AddTotal("total-calls", "all calls", TotalsOf(report, true).times, report, list);
  }
  section.Add(list.Take());
  if (once.kernels < report.kernels.size()) {
    section.Add(Paragraph("Left out: " + std::to_string(report.kernels.size() - once.kernels) +
                          " of the " + all +
                          " kernels, whose own or undivided engine's time is not known."));
  }
  section.Add(Paragraph(MeaningOfTimes(report)));
  return std::move(section.Add(TotalsChart(once.times, report.offline)));
}

struct KernelRow {
  size_t at = 0;
  const ReportedKernel& kernel;
  std::optional<Times> times;
};

std::string CallsText(const ReportedKernel& kernel) {
  const std::string calls = std::to_string(kernel.calls);
  if (kernel.undivided_calls == 0) return calls;
  return calls + ", " + std::to_string(kernel.undivided_calls) + " undivided";
}

std::vector<ColumnOf<KernelRow>> KernelColumns(const RunReport& report) {
  std::vector<ColumnOf<KernelRow>> columns;
  const auto add = [&](const char* title, bool number, auto cell) {
    columns.push_back({title, number, cell});
  };
  const bool of_run = !report.offline;
  add("kernel", false, [&](const auto& row) { return KernelLabel(report, row.at); });
  add("images", true, [](const auto& row) { return CountCell(row.kernel.problem.n); });
  add("api", false, [](const auto& row) { return row.kernel.api; });
  if (of_run) {
    add("asked for", false,
        [](const auto& row) { return EngineName(row.kernel.problem.operation, row.kernel.asked); });
    add("calls", true, [](const auto& row) {
      return Cell(CallsText(row.kernel), static_cast<double>(row.kernel.calls));
    });
    add("undivided", true, [](const auto& row) { return TimeCell(row.kernel.UndividedMs()); });
  }
  add(of_run ? "best undivided" : "undivided", true,
      [&](const auto& row) { return TimeCell(row.kernel.BestUndividedMs(report.offline)); });
  add("planned", true, [](const auto& row) { return TimeCell(row.kernel.plan_ms); });
  if (of_run) {
    add("better engine", true,
        [](const auto& row) { return row.times ? GainCell(row.times->BetterEngine()) : Cell(""); });
  }
  add("division", true,
      [](const auto& row) { return row.times ? GainCell(row.times->Division()) : Cell(""); });
  const auto bytes = [](size_t bytes) { return BytesCell(static_cast<int64_t>(bytes)); };
  add("workspace", true, [=](const auto& row) { return bytes(row.kernel.all_workspace_bytes()); });
  add("limit", true, [=](const auto& row) {
    return row.kernel.limit_bytes ? bytes(*row.kernel.limit_bytes) : Cell("none");
  });
  add("micro-batches", false, [](const auto& row) { return DivisionText(row.kernel.division); });
  add("engines", false, [](const auto& row) {
    return EngineNames(row.kernel.problem.operation, row.kernel.division.configuration);
  });
  if (of_run) add("why", false, [](const auto& row) { return row.kernel.reason; });
  return columns;
}

Element KernelsSection(const RunReport& report) {
  Element section = Section("kernels", "Kernels");
  if (report.kernels.empty()) return std::move(section.Add(Paragraph("There are none.")));
  std::vector<KernelRow> rows;
  for (const ReportedKernel& kernel : report.kernels) {
    rows.push_back({rows.size(), kernel, TimesOf(kernel, report.offline)});
  }
  return std::move(section.Add(
      TableOf("kernel-table", "A heading sorts by its column.", KernelColumns(report), rows)));
}

Element FallbacksSection(const RunReport& report) {
  Element section = Section("fallbacks", "Fallbacks");
  if (report.offline) return std::move(section.Add(Paragraph("An offline plan has none.")));
  const int64_t undivided =
      std::accumulate(report.kernels.begin(), report.kernels.end(), int64_t{0},
                      [](int64_t sum, const auto& kernel) { return sum + kernel.undivided_calls; });
  if (undivided > 0) {
    section.Add(Paragraph(
        Counted(undivided, "call") +
        " of divided kernels ran undivided, within the workspace that was told: captured before "
        "they had run once, or without room in ucudnn's own workspace."));
  }
  if (report.fallbacks.empty()) {
    return std::move(section.Add(
        Paragraph(undivided > 0 ? "Nothing failed." : "None: everything ran as planned.")));
  }
  using Fallback = ReportedFallback;
  return std::move(section.Add(
      TableOf<Fallback>("fallback-table", "What ran otherwise than planned.",
                        {{"kernel", false, [](const Fallback& one) { return one.kernel; }},
                         {"cause", false, [](const Fallback& one) { return one.cause; }},
                         {"times", true, [](const Fallback& one) { return CountCell(one.count); }}},
                        report.fallbacks)));
}

}  // namespace

std::string ShapeText(const ConvolutionProblem& problem) {
  std::string text = std::to_string(problem.c) + "x" + Extents(problem, problem.x) + " -> " +
                     std::to_string(problem.k) + ", " + Extents(problem, problem.w);
  if (problem.stride != Spatial{1, 1, 1}) text += " stride " + Extents(problem, problem.stride);
  return text;
}

std::string KernelLabel(const RunReport& report, size_t at) {
  const ReportedKernel& kernel = report.kernels[at];
  return std::to_string(at + 1) + ": " +
         (kernel.name.empty() ? ShapeText(kernel.problem) : kernel.name) + " " +
         OperationName(kernel.problem.operation);
}

std::string FormatReportPage(const RunReport& report, const std::vector<std::string>& sources) {
  std::vector<Element> content;
  const std::string& source = sources.front();
  content.push_back(Element("h1", "ucudnn: micro-batched convolutions"));
  if (report.split) {
    for (Element& section : SpatialSections(*report.split)) content.push_back(std::move(section));
    content.push_back(Element("h2", "This rank's own calls").Set("id", "own-calls"));
    if (sources.size() > 1) {
      content.push_back(Paragraph("From here on the page is of one report of " +
                                  std::to_string(sources.size()) + ": " + source + "."));
    }
  }
  content.push_back(Head(report, source));
  content.push_back(TotalsSection(report));
  content.push_back(KernelsSection(report));
  content.push_back(TilesSection(report));
  content.push_back(TimelineSection(report));
  content.push_back(DesirableSetsSection(report));
  content.push_back(LayerMemorySection(report));
  content.push_back(WorkspaceDivisionSection(report));
  content.push_back(FallbacksSection(report));
  return FormatPage("ucudnn: " + Join(sources, ", "), std::move(content));
}

}  // namespace ucudnn::command
