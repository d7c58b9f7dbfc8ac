#include "command/report_page.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/plan_output.h"
#include "command/versions.h"
#include "planner/report/chart.h"
#include "planner/report/page.h"

namespace ucudnn::command {
namespace {

using namespace ucudnn::planner;

std::string Extents(const ConvolutionProblem& problem, const Spatial& extents) {
  std::string text = problem.spatial_rank == 3 ? std::to_string(extents[0]) + "x" : "";
  return text + std::to_string(extents[1]) + "x" + std::to_string(extents[2]);
}

std::string ShapeText(const ConvolutionProblem& problem) {
  std::string text = std::to_string(problem.c) + "x" + Extents(problem, problem.x) + " -> " +
                     std::to_string(problem.k) + ", " + Extents(problem, problem.w);
  if (problem.stride != Spatial{1, 1, 1}) text += " stride " + Extents(problem, problem.stride);
  return text;
}

std::string RatioText(double over, double under) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fx", over / under);
  return text;
}

// Engines of a plan, each once, in their order.
std::string Engines(const Configuration& configuration) {
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

Cell TimeCell(const std::optional<double>& ms) {
  return ms ? Cell(Milliseconds(*ms), *ms) : Cell("not known");
}

Cell BytesCell(size_t bytes) { return {FormatByteSize(bytes), static_cast<double>(bytes)}; }

Element Head(const RunReport& report, const std::string& source) {
  Element list("dl");
  list.Set("id", "about");
  const auto add = [&](const char* name, const std::string& value) {
    list.Add(Element("dt", name)).Add(Element("dd", value));
  };
  add("report", source + (report.offline ? ", planned offline from measurements" : ", of a run"));
  add("device", report.device);
  add("cuDNN", report.cudnn == 0 ? "not known" : CudnnVersion(static_cast<size_t>(report.cudnn)));
  if (!report.ucudnn.empty()) add("ucudnn", report.ucudnn);
  if (!report.mode.empty()) add("mode", report.mode);
  if (!report.policy.empty()) add("policy", report.policy);
  if (report.measured) add("measurements made by this process", std::to_string(*report.measured));
  return list;
}

// Of the kernels whose times are both known.
struct Totals {
  double undivided_ms = 0;
  double planned_ms = 0;
  size_t kernels = 0;
};

Totals TotalsOf(const RunReport& report, bool by_calls) {
  Totals totals;
  for (const ReportedKernel& kernel : report.kernels) {
    const std::optional<double> baseline = kernel.BaselineMs(report.offline);
    if (!baseline || !kernel.plan_ms || (by_calls && !kernel.calls)) continue;
    const double times = by_calls ? static_cast<double>(*kernel.calls) : 1;
    totals.undivided_ms += *baseline * times;
    totals.planned_ms += *kernel.plan_ms * times;
    ++totals.kernels;
  }
  return totals;
}

void AddTotal(const char* id, const char* what, const Totals& totals, Element& list) {
  Element value("dd");
  value.Set("id", id).Set("data-undivided", Coordinate(totals.undivided_ms));
  value.Set("data-planned", Coordinate(totals.planned_ms));
  std::string text = Milliseconds(totals.undivided_ms) + " undivided, " +
                     Milliseconds(totals.planned_ms) + " as planned";
  if (totals.planned_ms > 0) text += ": " + RatioText(totals.undivided_ms, totals.planned_ms);
  list.Add(Element("dt", what)).Add(std::move(value.Text(text)));
}

Element TotalsSection(const RunReport& report) {
  Element section = Section("totals", "Against undivided convolutions");
  size_t divided = 0;
  for (const ReportedKernel& kernel : report.kernels) divided += kernel.divided() ? 1 : 0;
  const std::string all = std::to_string(report.kernels.size());
  const Totals once = TotalsOf(report, false);
  section.Add(Paragraph(all + " kernels, " + std::to_string(divided) + " of them divided."));
  if (once.kernels == 0) {
    return std::move(
        section.Add(Paragraph("No kernel has both its own and an undivided engine's time.")));
  }
  Element list("dl");
  AddTotal("total-once", "one call of each kernel", once, list);
  if (!report.offline) AddTotal("total-calls", "all calls", TotalsOf(report, true), list);
  section.Add(std::move(list));
  if (once.kernels < report.kernels.size()) {
    section.Add(Paragraph("Left out: " + std::to_string(report.kernels.size() - once.kernels) +
                          " of the " + all +
                          " kernels, whose own or undivided engine's time is not known."));
  }
  std::string within = "the workspace limit";
  if (report.offline) {
    within = report.undivided_limit_bytes
                 ? FormatByteSize(*report.undivided_limit_bytes) + " of workspace"
                 : "any workspace";
  }
  section.Add(Paragraph(
      "Times are those of the measurements behind the plans, not of the calls themselves; "
      "undivided is the fastest undivided engine within " +
      within + "."));
  BarChart chart;
  chart.id = "totals-chart";
  chart.title = "One call of each kernel";
  chart.bars = {{"undivided",
                 {{once.undivided_ms, 8, "", "undivided: " + Milliseconds(once.undivided_ms)}},
                 Milliseconds(once.undivided_ms)},
                {"as planned",
                 {{once.planned_ms, 0, "", "as planned: " + Milliseconds(once.planned_ms)}},
                 Milliseconds(once.planned_ms)}};
  return std::move(section.Add(Draw(chart)));
}

std::vector<Cell> KernelRow(const RunReport& report, size_t at) {
  const ReportedKernel& kernel = report.kernels[at];
  const std::optional<double> baseline = kernel.BaselineMs(report.offline);
  std::vector<Cell> row = {
      KernelLabel(report, at),
      {std::to_string(kernel.problem.n), static_cast<double>(kernel.problem.n)},
      kernel.api};
  if (!report.offline) {
    std::string calls = std::to_string(*kernel.calls);
    if (kernel.undivided_calls > 0) {
      calls += ", " + std::to_string(kernel.undivided_calls) + " undivided";
    }
    row.emplace_back(calls, static_cast<double>(*kernel.calls));
  }
  row.push_back(TimeCell(baseline));
  row.push_back(TimeCell(kernel.plan_ms));
  const bool known = baseline && kernel.plan_ms && *kernel.plan_ms > 0;
  row.push_back(known ? Cell(RatioText(*baseline, *kernel.plan_ms), *baseline / *kernel.plan_ms)
                      : Cell(""));
  row.push_back(BytesCell(kernel.all_workspace_bytes()));
  row.push_back(kernel.limit_bytes ? BytesCell(*kernel.limit_bytes) : Cell("none"));
  row.emplace_back(DivisionText(kernel.configuration));
  row.emplace_back(Engines(kernel.configuration));
  if (!report.offline) row.emplace_back(kernel.reason);
  return row;
}

Element KernelsSection(const RunReport& report) {
  Element section = Section("kernels", "Kernels");
  if (report.kernels.empty()) return std::move(section.Add(Paragraph("There are none.")));
  std::vector<Column> columns = {{"kernel"}, {"images", true}, {"api"}};
  if (!report.offline) columns.push_back({"calls", true});
  columns.insert(columns.end(), {{"undivided", true},
                                 {"planned", true},
                                 {"gain", true},
                                 {"workspace", true},
                                 {"limit", true},
                                 {"micro-batches"},
                                 {"engines"}});
  if (!report.offline) columns.push_back({"why"});
  Table table("kernel-table", "A heading sorts by its column.", columns, true);
  for (size_t at = 0; at < report.kernels.size(); ++at) table.AddRow(KernelRow(report, at));
  return std::move(section.Add(table.Take()));
}

Element FallbacksSection(const RunReport& report) {
  Element section = Section("fallbacks", "Fallbacks");
  if (report.offline) return std::move(section.Add(Paragraph("An offline plan has none.")));
  const int64_t undivided =
      std::accumulate(report.kernels.begin(), report.kernels.end(), int64_t{0},
                      [](int64_t sum, const auto& kernel) { return sum + kernel.undivided_calls; });
  if (undivided > 0) {
    section.Add(Paragraph(
        std::to_string(undivided) + (undivided == 1 ? " call" : " calls") +
        " of divided kernels ran undivided, within the workspace that was told: captured before "
        "they had run once, or without room in ucudnn's workspace."));
  }
  if (report.fallbacks.empty()) {
    return std::move(section.Add(
        Paragraph(undivided > 0 ? "Nothing failed." : "None: everything ran as planned.")));
  }
  Table table("fallback-table", "What ran otherwise than planned.",
              {{"kernel"}, {"cause"}, {"times", true}}, true);
  for (const ReportedFallback& fallback : report.fallbacks) {
    table.AddRow({fallback.kernel,
                  fallback.cause,
                  {std::to_string(fallback.count), static_cast<double>(fallback.count)}});
  }
  return std::move(section.Add(table.Take()));
}

}  // namespace

std::string KernelLabel(const RunReport& report, size_t at) {
  const ReportedKernel& kernel = report.kernels[at];
  return std::to_string(at + 1) + ": " +
         (kernel.name.empty() ? ShapeText(kernel.problem) : kernel.name) + " " +
         OperationName(kernel.problem.operation);
}

std::string FormatReportPage(const RunReport& report, const std::string& source) {
  std::vector<Element> content;
  content.push_back(Element("h1", "ucudnn: micro-batched convolutions"));
  content.push_back(Head(report, source));
  content.push_back(TotalsSection(report));
  content.push_back(KernelsSection(report));
  content.push_back(TimelineSection(report));
  content.push_back(DesirableSetsSection(report));
  content.push_back(LayerMemorySection(report));
  content.push_back(WorkspaceDivisionSection(report));
  content.push_back(FallbacksSection(report));
  return FormatPage("ucudnn: " + source, std::move(content));
}

}  // namespace ucudnn::command
