#include "planner/report/layout_page.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "planner/layout/what_if.h"
#include "planner/report/chart.h"
#include "planner/report/layout_colours.h"
#include "planner/report/network_drawing.h"
#include "planner/report/page.h"

namespace ucudnn::planner {
namespace {

Element Head(const PlanningProblem& problem, const LayoutSetting& setting,
             const ParallelLayout& chosen) {
  Descriptions list("about");
  const auto counted = [](int number, const char* noun) {
    return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
  };
  list.Add("mini-batch", counted(problem.graph.batch, "image"));
  list.Add("machine", setting.machine + ", " + counted(setting.devices, "device"));
  list.Add("costs", setting.cost + (setting.measured.empty() ? "" : " " + setting.measured));
  list.Add("gradients by", setting.update);
  if (setting.memory_limit_bytes) {
    list.Add("memory of a device, at most",
             Bytes(static_cast<double>(*setting.memory_limit_bytes)));
  }
  list.Add("layout drawn", std::string(StrategyName(chosen.strategy)) + ", " +
                               Milliseconds(chosen.cost.total_ms) + " a step");
  return list.Take();
}

std::string Proof(const ParallelLayout& deepa) {
  if (deepa.optimal) return "deepa is optimal: no layout takes less.";
  return "No layout takes less than " + Milliseconds(deepa.lower_bound_ms) + ".";
}

Element StrategiesSection(const std::vector<ParallelLayout>& layouts, const ParallelLayout& deepa) {
  Element section = Section("strategies", "Strategies");
  section.Add(Paragraph(
      "One training step, as the cost model adds it up. Bytes arrive at all devices together; "
      "memory is the most that any device needs. " +
      Proof(deepa)));
  Table table("strategy-table", "A heading sorts by its column.",
              {{"strategy"},
               {"total", true},
               {"transfer", true},
               {"compute", true},
               {"update", true},
               {"moved by transfers", true},
               {"moved by updates", true},
               {"moved", true},
               {"memory", true}},
              true);
  BarChart times;
  times.id = "time-chart";
  times.title = "Time of a step";
  times.legend = {"transfer", "update", "compute"};
  BarChart moved;
  moved.id = "moved-chart";
  moved.title = "Bytes moved in a step";
  moved.unit = Unit::kBytes;
  moved.legend = {"transfer (activations, their gradients)",
                  "update (parameters, their gradients)"};
  for (const ParallelLayout& layout : layouts) {
    const LayoutCost& cost = layout.cost;
    const char* name = StrategyName(layout.strategy);
    const int64_t all = cost.transfer_bytes + cost.update_bytes;
    table.AddRow({name, TimeCell(cost.total_ms), TimeCell(cost.transfer_ms),
                  TimeCell(cost.compute_ms), TimeCell(cost.update_ms),
                  BytesCell(cost.transfer_bytes), BytesCell(cost.update_bytes), BytesCell(all),
                  BytesCell(cost.memory_bytes)});
    times.bars.push_back({name,
                          {{cost.transfer_ms, 0, "", "transfer: " + Milliseconds(cost.transfer_ms)},
                           {cost.update_ms, 1, "", "update: " + Milliseconds(cost.update_ms)},
                           {cost.compute_ms, 2, "", "compute: " + Milliseconds(cost.compute_ms)}},
                          Milliseconds(cost.total_ms)});
    const auto transfers = static_cast<double>(cost.transfer_bytes);
    const auto updates = static_cast<double>(cost.update_bytes);
    moved.bars.push_back({name,
                          {{transfers, 0, "", "transfer: " + Bytes(transfers)},
                           {updates, 1, "", "update: " + Bytes(updates)}},
                          Bytes(transfers + updates)});
  }
  section.Add(table.Take());
  section.Add(Draw(times));
  return std::move(section.Add(Draw(moved)));
}

std::vector<Column> RowColumns(const char* first, bool output) {
  std::vector<Column> columns = {{first}};
  if (output) columns.push_back({"output"});
  const std::vector<Column> rest = {{"configuration"}, {"devices", true},  {"transfer", true},
                                    {"compute", true}, {"compute is"},     {"update", true},
                                    {"total", true},   {"best plan", true}};
  columns.insert(columns.end(), rest.begin(), rest.end());
  return columns;
}

void AppendRow(const WhatIf& row, std::vector<Cell>& cells) {
  cells.insert(
      cells.end(),
      {ShortText(row.configuration), CountCell(row.configuration.degrees.Workers()),
       TimeCell(row.transfer_ms), TimeCell(row.compute_ms), row.measured ? "measured" : "estimated",
       TimeCell(row.update_ms), TimeCell(row.total_ms), TimeCell(row.best_total_ms)});
}

constexpr const char* kReductionLegend =
    "r: into how many parts input channels are divided, whose partial sums are then added up; ";

bool HasReductions(const PlanningProblem& problem) {
  return std::any_of(problem.configurations.begin(), problem.configurations.end(),
                     [](const std::vector<ParallelConfiguration>& choices) {
                       return std::any_of(choices.begin(), choices.end(),
                                          [](const auto& choice) { return choice.degrees.r > 1; });
                     });
}

Element LayersSection(const PlanningProblem& problem, const ParallelLayout& chosen,
                      const ParallelLayout& deepa) {
  Element section = Section("layers", "Layers");
  section.Add(
      Paragraph("n, c, h, w: into how many parts images, channels, height and width are divided; " +
                std::string(HasReductions(problem) ? kReductionLegend : "") +
                "n1 is one device. Best plan: the least that any layout takes with the layer so."));
  Table table("layer-table", "A heading sorts by its column.", RowColumns("layer", true), true);
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    const PlannedLayer& layer = problem.graph.layers[at];
    const auto rows =
        WhatIfTable(problem, chosen.assignment, deepa.best_total_ms, static_cast<int>(at));
    std::vector<Cell> cells = {layer.name, Describe(layer.output)};
    AppendRow(rows[static_cast<size_t>(chosen.assignment[at])], cells);
    table.AddRow(cells);
  }
  return std::move(section.Add(table.Take()));
}

Element WhatIfSection(const PlanningProblem& problem, const ParallelLayout& chosen,
                      const ParallelLayout& deepa, int layer) {
  const auto at = static_cast<size_t>(layer);
  Element section = Section("what-if", "What if: " + problem.graph.layers[at].name);
  section.Add(Paragraph("The layer in every configuration it may have, all others as they are."));
  Table table("what-if-table", "A heading sorts by its column.", RowColumns("", false), true);
  const auto rows = WhatIfTable(problem, chosen.assignment, deepa.best_total_ms, layer);
  for (size_t row = 0; row < rows.size(); ++row) {
    std::vector<Cell> cells = {static_cast<int>(row) == chosen.assignment[at] ? "chosen" : ""};
    AppendRow(rows[row], cells);
    table.AddRow(cells);
  }
  return std::move(section.Add(table.Take()));
}

}  // namespace

std::string FormatLayoutPage(const PlanningProblem& problem, const LayoutSetting& setting,
                             const std::vector<ParallelLayout>& layouts,
                             const ParallelLayout& chosen, int layer) {
  const ParallelLayout& deepa = *std::find_if(
      layouts.begin(), layouts.end(),
      [](const ParallelLayout& layout) { return layout.strategy == Strategy::kDeePa; });
  const std::string title = problem.graph.name + " on " + setting.machine;
  std::vector<Element> content;
  content.push_back(Element("h1", title));
  content.push_back(Head(problem, setting, chosen));
  content.push_back(StrategiesSection(layouts, deepa));
  Element network = Section("network", "Network");
  network.Add(Paragraph("Layers coloured by configuration, layout " +
                        std::string(StrategyName(chosen.strategy)) +
                        "; wide edges move much data in a step, thin ones none."));
  network.Add(DrawNetwork(problem, chosen));
  content.push_back(std::move(network));
  if (layer >= 0) content.push_back(WhatIfSection(problem, chosen, deepa, layer));
  content.push_back(LayersSection(problem, chosen, deepa));
  return FormatPage(title, std::move(content));
}

}  // namespace ucudnn::planner
