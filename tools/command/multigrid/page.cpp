#include "command/multigrid/page.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/multigrid/facts.h"
#include "command/multigrid/scaling.h"
#include "command/multigrid/timeline.h"
#include "command/numbers.h"
#include "planner/report/levels_drawing.h"
#include "planner/report/line_chart.h"
#include "planner/report/page.h"

namespace ucudnn::command {
namespace {

using planner::Cell;
using planner::ColumnOf;
using planner::Element;
using planner::Paragraph;
using planner::Section;
using planner::TableOf;

constexpr size_t kMostCurves = 24;
constexpr size_t kMostHierarchies = 6;
constexpr char kSerially[] = "serial propagation";

Cell NumberCell(const char* format, const std::optional<double>& number) {
  return number ? Cell(NumberText(format, *number), *number) : Cell("");
}

Cell WholeCell(int64_t number) { return {Grouped(number), static_cast<double>(number)}; }

bool IsRelative(const MultigridReport& report) {
  return report.norm.find("relative") != std::string::npos;
}

// The solve of one stage: a row of the table and a curve of the chart.
struct SolveRow {
  const MultigridReport* report;
  const ReportedSolve* solve;
  const ReportedStage* stage;
  std::string name;
};

// The training of one report. Its epochs are rows of the table and points of curves.
struct TrainingRow {
  const MultigridReport* report;
  const ReportedTraining* training;
  std::string name;
};

struct EpochRow {
  const TrainingRow& training;
  int64_t number = 1;
  const ReportedEpoch& epoch;
};

// Returns a name for each row, made of the attributes in which not all rows are equal. If the name
// would be empty, it is the row's first attribute. REQUIRES: all rows have equally many attributes.
std::vector<std::string> NamesOf(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> names(rows.size());
  const size_t attributes = rows.empty() ? 0 : rows.front().size();
  for (size_t at = 0; at < attributes; ++at) {
    const bool differs = std::any_of(rows.begin(), rows.end(),
                                     [&](const auto& row) { return row[at] != rows.front()[at]; });
    if (!differs) continue;
    for (size_t row = 0; row < rows.size(); ++row) {
      names[row] += (names[row].empty() ? "" : ", ") + rows[row][at];
    }
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    if (names[row].empty()) names[row] = rows[row].front();
  }
  return names;
}

std::string StepsText(int64_t steps) {
  return Grouped(steps) + (steps == 1 ? " layer" : " layers");
}

const char* LaneOf(const MultigridReport& report) {
  return report.backend == "cudnn" ? "stream" : "thread";
}

std::string DevicesText(const MultigridReport& report) {
  const std::string number = Counted(report.devices, "device");
  return report.method == "partitioned" ? "partitioned over " + number : number;
}

bool HasOneLevel(const std::vector<ReportedStage>& stages) {
  return LongestOf(stages).levels.size() == 1;
}

// Returns whether the longest stage of each solve, or of the training, has only one level, so that
// the report is about serial propagation.
bool IsSerial(const MultigridReport& report) {
  if (report.training) return HasOneLevel(report.training->stages);
  return std::all_of(report.solves.begin(), report.solves.end(),
                     [](const ReportedSolve& solve) { return HasOneLevel(solve.stages); });
}

std::string CoarseningText(const ReportedStage& stage) {
  std::vector<int64_t> factors = stage.coarsening;
  factors.erase(std::unique(factors.begin(), factors.end()), factors.end());
  return factors.empty() ? "one level" : "coarsening " + Joined(factors, ",");
}

// Returns T = h * steps: solves of several depths usually have equal T, but not equal h.
std::string IntervalText(const ReportedStage& stage) {
  if (!stage.step) return "";
  return NumberText("T = %.3g", *stage.step * static_cast<double>(stage.steps));
}

std::vector<SolveRow> SolveRowsOf(const std::vector<MultigridReport>& reports) {
  std::vector<SolveRow> rows;
  std::vector<std::vector<std::string>> attributes;
  for (const MultigridReport& report : reports) {
    for (const ReportedSolve& solve : report.solves) {
      for (size_t at = 0; at < solve.stages.size(); ++at) {
        const ReportedStage& stage = solve.stages[at];
        rows.push_back({&report, &solve, &stage, ""});
        const std::string number = "stage " + std::to_string(at + 1);
        attributes.push_back({Counted(stage.steps, "layer"), report.network, number,
                              CoarseningText(stage), report.coarse, report.relaxation,
                              "start " + report.start, report.norm, report.precision,
                              DevicesText(report), IntervalText(stage)});
      }
    }
  }
  const std::vector<std::string> names = NamesOf(attributes);
  for (size_t row = 0; row < rows.size(); ++row) rows[row].name = names[row];
  return rows;
}

std::string MethodText(const MultigridReport& report, const ReportedTraining& training) {
  if (HasOneLevel(training.stages)) return kSerially;
  if (report.tolerance) return NumberText("residuals to %.3g", *report.tolerance);
  std::string text = std::to_string(report.most_cycles);
  if (training.most_backward_cycles != report.most_cycles) {
    text += " + " + std::to_string(training.most_backward_cycles);
  }
  return text + (text == "1" ? " cycle" : " cycles");
}

std::vector<TrainingRow> TrainingRowsOf(const std::vector<MultigridReport>& reports) {
  std::vector<TrainingRow> rows;
  std::vector<std::vector<std::string>> attributes;
  for (const MultigridReport& report : reports) {
    if (!report.training) continue;
    const ReportedTraining& training = *report.training;
    rows.push_back({&report, &training, ""});
    attributes.push_back({MethodText(report, training), report.network,
                          Counted(LongestOf(training.stages).steps, "layer"), report.coarse,
                          report.relaxation,
                          training.rate ? NumberText("rate %.3g", *training.rate) : "",
                          training.momentum ? NumberText("momentum %.3g", *training.momentum) : "",
                          "mini-batches of " + std::to_string(report.batch),
                          Counted(training.repeats, "step") + " each", "start " + report.start,
                          std::to_string(training.examples) + " images", DevicesText(report)});
  }
  // The first attribute, MethodText(), is part of every name.
  std::vector<std::vector<std::string>> rest = attributes;
  for (auto& row : rest) row.erase(row.begin());
  const std::vector<std::string> names = NamesOf(rest);
  const bool differ = std::any_of(names.begin(), names.end(),
                                  [&](const auto& name) { return name != names.front(); });
  for (size_t row = 0; row < rows.size(); ++row) {
    rows[row].name = attributes[row].front() + (differ ? ", " + names[row] : "");
  }
  return rows;
}

Element AboutList(const std::vector<MultigridReport>& reports) {
  planner::Descriptions list("about");
  // Adds the values of all reports, equal values only once.
  const auto add = [&](const char* name, const auto& value_of) {
    std::vector<std::string> values;
    for (const MultigridReport& report : reports) {
      const std::string value = value_of(report);
      if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end()) {
        values.push_back(value);
      }
    }
    list.Add(name, Join(values, "; "));
  };
  add("network", [](const MultigridReport& report) {
    if (report.solves.size() > 1) {
      return report.network + " at " + std::to_string(report.solves.size()) + " depths";
    }
    return report.network + ", " + Grouped(report.layers) + " layers, " +
           Grouped(report.parameters) + " parameters";
  });
  add("weights", [](const MultigridReport& report) { return report.weights; });
  add("method", [](const MultigridReport& report) {
    const bool is_partitioned = report.method == "partitioned";
    if (is_partitioned) return std::string("partitioned: one layer after the other");
    if (IsSerial(report)) return std::string(kSerially);
    return "V-cycle, relaxation " + report.relaxation + ", coarse operator " + report.coarse +
           ", start " + report.start;
  });
  add("precision",
      [](const MultigridReport& report) { return report.precision + " (" + report.backend + ")"; });
  add("norm of residuals", [](const MultigridReport& report) { return report.norm; });
  add("machine", [](const MultigridReport& report) { return report.machine; });
  add("times", [](const MultigridReport& report) {
    return report.has_cpu_times ? "CPU times, by the clock" : "of a device, by the clock";
  });
  add("states kept", [](const MultigridReport& report) {
    if (!report.state_bytes) return report.storage;
    return report.storage + ", " + FormatByteSize(static_cast<size_t>(*report.state_bytes));
  });
  add("images in a mini-batch",
      [](const MultigridReport& report) { return std::to_string(report.batch); });
  add("report", [](const MultigridReport& report) { return report.source; });
  add("ucudnn", [](const MultigridReport& report) { return report.ucudnn; });
  return list.Take();
}

std::optional<double> LastResidual(const ReportedStage& stage) {
  return stage.residuals.empty() ? std::nullopt : stage.residuals.back();
}

// Returns the last residual divided by the norm of the largest state.
std::optional<double> RelativeResidual(const SolveRow& row) {
  const std::optional<double> residual = LastResidual(*row.stage);
  const std::optional<double>& largest = row.stage->largest_state;
  // After a fallback, the residual is that of states which serial propagation has replaced.
  if (row.stage->status == "serial") return std::nullopt;
  if (!residual || IsRelative(*row.report)) return residual;
  return largest && *largest > 0 ? std::optional(*residual / *largest) : std::nullopt;
}

// Returns explanations of those statuses that occur in `rows`.
std::string StatusesText(const std::vector<SolveRow>& rows) {
  static constexpr std::pair<const char*, const char*> kMeanings[] = {
      {"converged", "converged: the residual is at most the tolerance"},
      {"rounding",
       "rounding: the residual is as small as the precision allows, above the tolerance"},
      {"early", "early: the cycles asked for are done, and the states are approximate"},
      {"direct",
       "direct: as many cycles as make relaxation alone exact, whatever the coarse levels do"},
      {"serial", "serial: one level, or a solve that did not converge, solved layer by layer"}};
  std::vector<std::string> texts;
  for (const auto& meaning : kMeanings) {
    const bool is_there = std::any_of(rows.begin(), rows.end(), [&](const SolveRow& row) {
      return row.stage->status == meaning.first;
    });
    if (is_there) texts.emplace_back(meaning.second);
  }
  return texts.empty() ? "" : " Status: " + Join(texts, "; ") + ".";
}

Element SolvesSection(const std::vector<SolveRow>& rows) {
  Element section = Section("solves", "Solves");
  section.Add(
      Paragraph("One forward pass each. The error is that of the network's output against serial "
                "propagation, relative, in L2, where it was checked. Serial "
                "propagation on the same machine is what a solve has to beat." +
                StatusesText(rows)));
  std::vector<ColumnOf<SolveRow>> columns = {
      {"solve", false, [](const auto& row) { return row.name; }},
      {"residual layers", true, [](const auto& row) { return WholeCell(row.stage->steps); }},
      {"h", true, [](const auto& row) { return NumberCell("%.3g", row.stage->step); }},
      {"levels", true,
       [](const auto& row) { return WholeCell(static_cast<int64_t>(row.stage->levels.size())); }},
      {"cycles", true, [](const auto& row) { return WholeCell(row.stage->cycles); }},
      {"status", false, [](const auto& row) { return row.stage->status; }},
      {"residual", true,
       [](const auto& row) { return NumberCell("%.3e", LastResidual(*row.stage)); }},
      {"of the largest state", true,
       [](const auto& row) { return NumberCell("%.2e", RelativeResidual(row)); }},
      {"output error", true,
       [](const auto& row) { return NumberCell("%.2e", row.solve->output_error); }},
      {"solve, s", true, [](const auto& row) { return NumberCell("%.3g", row.solve->seconds); }},
      {"serial, s", true,
       [](const auto& row) { return NumberCell("%.3g", row.solve->serial_seconds); }}};
  if (std::any_of(rows.begin(), rows.end(),
                  [](const SolveRow& row) { return !row.stage->fallback.empty(); })) {
    columns.push_back(
        {"fell back since", false, [](const auto& row) { return row.stage->fallback; }});
  }
  return std::move(
      section.Add(TableOf("solve-table", "A heading sorts by its column.", columns, rows)));
}

// Returns a line of the chart for the cycles or epochs first ... first + count - 1. Its points are
// value_of(0) ... value_of(count - 1); unset values have no point.
template <typename ValueOf>
planner::Line LineOf(const std::string& name, const std::string& unit, int first, size_t count,
                     const char* format, const ValueOf& value_of) {
  planner::Line line = {name, {}};
  for (size_t at = 0; at < count; ++at) {
    const std::optional<double> value = value_of(at);
    const int number = first + static_cast<int>(at);
    if (!value) continue;
    line.points.push_back(
        {number, *value,
         name + ", " + unit + " " + std::to_string(number) + NumberText(format, *value)});
  }
  return line;
}

Element ConvergenceSection(const std::vector<SolveRow>& rows) {
  Element section = Section("convergence", "Convergence");
  planner::LineChart chart;
  chart.id = "convergence-chart";
  chart.title = "Residual after each cycle";
  chart.x_label = "cycle";
  chart.y_label = "residual, " + rows.front().report->norm;
  chart.is_logarithmic = true;
  size_t left_out = 0;
  for (const SolveRow& row : rows) {
    const std::vector<std::optional<double>>& residuals = row.stage->residuals;
    planner::Line line = LineOf(row.name, "cycle", 0, residuals.size(), ": %.3e",
                                [&](size_t at) { return residuals[at]; });
    if (line.points.empty()) continue;
    if (chart.lines.size() == kMostCurves) {
      ++left_out;
    } else {
      chart.lines.push_back(std::move(line));
    }
  }
  if (chart.lines.empty()) {
    section.Add(Paragraph("Nothing was solved by cycles."));
    return section;
  }
  const std::optional<double>& tolerance = rows.front().report->tolerance;
  const bool have_one = std::all_of(rows.begin(), rows.end(), [&](const SolveRow& row) {
    return row.report->tolerance == tolerance;
  });
  if (have_one && tolerance) {
    chart.limit_y = tolerance;
    chart.limit_label = NumberText("tolerance %.3g", *tolerance);
  }
  section.Add(Paragraph(
      "Cycle 0 is the start. The first cycle often raises the residual, and the "
      "solve converges all the same: it is judged from the second on." +
      (left_out > 0 ? " " + std::to_string(left_out) + " more are not drawn." : std::string())));
  return std::move(section.Add(Draw(chart)));
}

std::string RelaxationOf(const std::string& relaxation, size_t level) {
  const std::vector<std::string> each = Split(relaxation, ',');
  return each[std::min(level, each.size() - 1)];
}

Element DrawLevelsOf(const MultigridReport& report, const ReportedStage& stage, size_t number) {
  std::vector<planner::DrawnLevel> drawn;
  int64_t span = 1;
  for (size_t level = 0; level < stage.levels.size(); ++level) {
    const bool is_coarsest = level + 1 == stage.levels.size();
    const int64_t factor = is_coarsest ? 1 : stage.coarsening[level];
    drawn.push_back({stage.levels[level], span, factor,
                     "level " + std::to_string(level + 1) + ": " + StepsText(stage.levels[level]),
                     is_coarsest ? "serially"
                                 : RelaxationOf(report.relaxation, level) + ", blocks of " +
                                       std::to_string(factor)});
    span *= factor;
  }
  const std::string id = "levels-" + std::to_string(number);
  return planner::DrawLevels(
      id.c_str(),
      report.network + ", stage of " + StepsText(stage.steps) +
          (stage.shape.empty() ? "" : ", states of " + Joined(stage.shape, "x")),
      drawn);
}

Element LevelsSection(
    const std::vector<std::pair<const MultigridReport*, const ReportedStage*>>& all) {
  Element section = Section("levels", "Levels");
  section.Add(Paragraph(
      "Over the depth of the network: a tick for each state of a level, tall for those that the "
      "next level has; where they are too close to be told apart a band. Blocks between tall ticks "
      "are relaxed at the same time; the last level is solved layer by layer. A cycle goes down, "
      "level by level, and up again."));
  std::map<std::vector<int64_t>, bool> seen;
  for (const auto& [report, stage] : all) {
    std::vector<int64_t> key = stage->levels;
    key.insert(key.end(), stage->coarsening.begin(), stage->coarsening.end());
    if (seen.size() == kMostHierarchies || !seen.emplace(std::move(key), true).second) continue;
    section.Add(DrawLevelsOf(*report, *stage, seen.size()));
  }
  return section;
}

planner::LineChart EpochChart(const char* id, const char* title, const char* y_label) {
  planner::LineChart chart;
  chart.id = id;
  chart.title = title;
  chart.x_label = "epoch";
  chart.y_label = y_label;
  return chart;
}

// Draws, for each epoch, the mean of the last residuals of its solves. Solves that ran no cycles do
// not count. Returns nothing if no solve ran cycles.
std::optional<Element> TrainingResidualChart(const std::vector<TrainingRow>& rows) {
  planner::LineChart chart = EpochChart(
      "residual-chart", "Residual at which solves ended: the mean over an epoch", "residual");
  chart.is_logarithmic = true;
  const auto add = [&](const TrainingRow& row, const char* way,
                       std::optional<double> ReportedEpoch::*residual) {
    const std::vector<ReportedEpoch>& epochs = row.training->epochs;
    planner::Line line = LineOf(row.name + ", " + way, "epoch", 1, epochs.size(), ": %.3e",
                                [&](size_t at) { return epochs[at].*residual; });
    if (!line.points.empty()) chart.lines.push_back(std::move(line));
  };
  for (size_t at = 0; at < std::min(rows.size(), kMostCurves / 2); ++at) {
    add(rows[at], "forward", &ReportedEpoch::residual);
    add(rows[at], "adjoint", &ReportedEpoch::backward_residual);
  }
  if (chart.lines.empty()) return std::nullopt;
  return Draw(chart);
}

Element TrainingCharts(const std::vector<TrainingRow>& rows) {
  planner::LineChart loss =
      EpochChart("loss-chart", "Loss: mean cross-entropy over the steps of an epoch", "loss");
  planner::LineChart top1 = EpochChart(
      "top1-chart", "Top-1: share of the test images that are classified right, after each epoch",
      "%");
  top1.most_y = 100;
  for (size_t at = 0; at < std::min(rows.size(), kMostCurves); ++at) {
    const std::vector<ReportedEpoch>& epochs = rows[at].training->epochs;
    loss.lines.push_back(LineOf(rows[at].name, "epoch", 1, epochs.size(), ": loss %.5g",
                                [&](size_t epoch) { return epochs[epoch].loss; }));
    top1.lines.push_back(
        LineOf(rows[at].name, "epoch", 1, epochs.size(), ": top-1 %.2f %%",
               [&](size_t epoch) { return std::optional(100 * epochs[epoch].top1); }));
  }
  Element charts = Element("div").Add(Draw(loss)).Add(Draw(top1));
  if (std::optional<Element> residuals = TrainingResidualChart(rows)) {
    charts.Add(std::move(*residuals));
  }
  return charts;
}

Element EpochTable(const std::vector<TrainingRow>& trainings) {
  std::vector<EpochRow> rows;
  for (const TrainingRow& training : trainings) {
    int64_t number = 0;
    for (const ReportedEpoch& epoch : training.training->epochs) {
      rows.push_back({training, ++number, epoch});
    }
  }
  std::vector<ColumnOf<EpochRow>> columns;
  const auto add = [&](const char* title, bool number, auto cell) {
    columns.push_back({title, number, cell});
  };
  add("training", false, [](const auto& row) { return row.training.name; });
  add("epoch", true, [](const auto& row) { return WholeCell(row.number); });
  add("loss", true, [](const auto& row) { return NumberCell("%.5f", row.epoch.loss); });
  add("top-1", true, [](const auto& row) { return NumberCell("%.2f %%", 100 * row.epoch.top1); });
  add("solves", true, [](const auto& row) { return WholeCell(row.epoch.solves); });
  add("cycles", true, [](const auto& row) { return WholeCell(row.epoch.cycles); });
  add("fell back", true, [](const auto& row) { return WholeCell(row.epoch.serial_solves); });
  add("far away", true, [](const auto& row) { return WholeCell(row.epoch.far_solves); });
  add("s", true, [](const auto& row) { return NumberCell("%.3g", row.epoch.seconds); });
  const auto any = [&](auto holds) { return std::any_of(rows.begin(), rows.end(), holds); };
  const auto output = [](const EpochRow& row) {
    return row.epoch.Largest(&ReportedCheck::output_error);
  };
  if (any([&](const EpochRow& row) { return output(row).has_value(); })) {
    add("output error", true, [=](const auto& row) { return NumberCell("%.1e", output(row)); });
    add("gradient error", true, [](const auto& row) {
      return NumberCell("%.1e", row.epoch.Largest(&ReportedCheck::gradient_error));
    });
  }
  if (any([](const EpochRow& row) { return !row.epoch.fallback.empty(); })) {
    add("fell back since", false, [](const auto& row) { return row.epoch.fallback; });
  }
  return TableOf("training-table", "A heading sorts by its column.", columns, rows);
}

Element TrainingSection(const std::vector<TrainingRow>& rows) {
  Element section = Section("training", "Training");
  const bool all_once = std::all_of(rows.begin(), rows.end(), [&](const TrainingRow& row) {
    return row.training->data == rows.front().training->data;
  });
  section.Add(Paragraph(
      (all_once ? "On " + Grouped(rows.front().training->examples) + " images of " +
                      rows.front().training->data + ", tested on " +
                      std::to_string(rows.front().training->test_examples) + " others. "
                : std::string()) +
      "Solves and cycles are those of an epoch, forward and backward; fell back are solves that "
      "did not converge and were done by serial propagation, far away those that stopped early "
      "with a "
      "residual of more than a tenth of the largest state. Errors are the largest against serial "
      "propagation of the steps that were checked, relative, in L2."));
  section.Add(TrainingCharts(rows));
  return std::move(section.Add(EpochTable(rows)));
}

}  // namespace

std::string FormatMultigridPage(const MultigridFiles& files) {
  const std::vector<MultigridReport>& reports = files.reports;
  const std::vector<SolveRow> solves = SolveRowsOf(reports);
  const std::vector<TrainingRow> trainings = TrainingRowsOf(reports);
  std::vector<Element> content;
  content.push_back(Element("h1", "ucudnn: layer-parallel multigrid"));
  if (!reports.empty()) content.push_back(AboutList(reports));
  std::vector<std::pair<const MultigridReport*, const ReportedStage*>> stages;
  if (!solves.empty()) {
    content.push_back(ConvergenceSection(solves));
    content.push_back(SolvesSection(solves));
    for (const SolveRow& row : solves) stages.emplace_back(row.report, row.stage);
  }
  std::vector<TimelineRow> timelines;
  for (const SolveRow& row : solves) {
    if (row.stage->timeline)
      timelines.push_back({row.name, LaneOf(*row.report), row.report->has_cpu_times, *row.stage});
  }
  if (!timelines.empty()) content.push_back(TimelineSection(timelines));
  if (!trainings.empty()) {
    content.push_back(TrainingSection(trainings));
    for (const TrainingRow& row : trainings) {
      for (const ReportedStage& stage : row.training->stages)
        stages.emplace_back(row.report, &stage);
    }
  }
  std::stable_sort(stages.begin(), stages.end(),
                   [](const auto& a, const auto& b) { return a.second->steps > b.second->steps; });
  if (!stages.empty()) content.push_back(LevelsSection(stages));
  size_t number = 0;
  for (const MultigridAnalysisReport& analysis : files.analyses) {
    content.push_back(ScalingSection(analysis, ++number));
  }
  std::vector<std::string> sources;
  for (const MultigridReport& report : reports) sources.push_back(report.source);
  for (const MultigridAnalysisReport& analysis : files.analyses) sources.push_back(analysis.source);
  return FormatPage("ucudnn: " + Join(sources, ", "), std::move(content));
}

}  // namespace ucudnn::command
