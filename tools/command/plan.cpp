// `ucudnn plan`: how to divide a network's layers over a machine's devices.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/csv.h"
#include "base/text.h"
#include "command/command.h"
#include "planner/cost/deepa_paper.h"
#include "planner/graph/network_file.h"
#include "planner/layout/strategies.h"
#include "planner/layout/what_if.h"
#include "planner/machine/machine_json.h"
#include "planner/machine/presets.h"
#include "planner/report/layout_json.h"

namespace ucudnn::command {
namespace {

using namespace ucudnn::planner;
using planner::Layout;  // not that of tensors

struct PlanOptions {
  std::string net;
  std::string machine;
  std::string batch;
  std::string strategy = "deepa";
  std::string cost = "roofline";
  std::string update = "parameter-server";
  std::string what_if;
  std::vector<std::string> pins;
  bool uneven = false;
  bool placements = false;
  bool json = false;
};

Result<int> ParseBatch(const std::string& text) {
  int batch = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), batch);
  if (error != std::errc() || end != text.data() + text.size() || batch < 1) {
    return Status::Error("--batch '" + text + "': not a mini-batch (accepted: 1 or more)");
  }
  return batch;
}

// A machine's name, else a file.
Result<Machine> LoadMachine(const std::string& machine) {
  const auto& names = MachineNames();
  const std::string name = machine.substr(0, machine.find(':'));
  if (std::find(names.begin(), names.end(), name) != names.end()) return MachineByName(machine);
  const Result<std::string> text = ReadTextFile(machine);
  if (!text.ok()) {
    return Status::Error("--machine " + text.message() + "; it is none of " + Join(names, ", "));
  }
  Result<Machine> parsed = ParseMachine(*text);
  if (!parsed.ok()) return Status::Error("--machine " + machine + ": " + parsed.message());
  return parsed;
}

Result<UpdateModel> ParseUpdate(const std::string& name) {
  const std::vector<std::string> names = {"parameter-server", "ring", "tree", "hierarchical"};
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    return Status::Error("--update " + Quoted(name) + ": expected one of " + Join(names, ", "));
  }
  return static_cast<UpdateModel>(found - names.begin());
}

// The models behind --cost, which refer to one another.
struct Costs {
  explicit Costs(const Machine& machine) : roofline(machine.device) {}
  Roofline roofline;
  std::optional<ComputeTable> table;
  std::unique_ptr<CostModel> model;
};

Status ChooseModel(const PlanOptions& plan, const Machine& machine, UpdateModel update,
                   Costs& costs) {
  if (plan.cost == "measured") {
    return Status::Error("--cost measured: not available in this version");
  }
  if (plan.cost == "deepa-paper") {
    if (update != UpdateModel::kParameterServer) {
      return Status::Error("--update " + plan.update + ": deepa-paper knows parameter-server only");
    }
    costs.model = std::make_unique<DeePaPaperModel>();
    return Status::Ok();
  }
  const ComputeModel* compute = &costs.roofline;
  if (plan.cost != "roofline") {
    const Result<std::string> text = ReadTextFile(plan.cost);
    if (!text.ok()) {
      return Status::Error("--cost " + text.message() + "; it is neither roofline nor deepa-paper");
    }
    Result<ComputeTable> table = ComputeTable::Parse(*text, plan.cost, costs.roofline);
    if (!table.ok()) return Status::Error("--cost " + table.message());
    costs.table.emplace(std::move(*table));
    compute = &*costs.table;
  }
  costs.model = std::make_unique<MachineCostModel>(machine, update, *compute);
  return Status::Ok();
}

void PrintStrategies(const std::vector<Layout>& layouts) {
  std::printf("%-8s %12s %12s %12s %12s %12s %12s\n", "strategy", "total ms", "transfer", "compute",
              "update", "moved", "memory");
  for (const Layout& layout : layouts) {
    const LayoutCost& cost = layout.cost;
    std::printf(
        "%-8s %12.4g %12.4g %12.4g %12.4g %12s %12s\n", StrategyName(layout.strategy),
        cost.total_ms, cost.transfer_ms, cost.compute_ms, cost.update_ms,
        FormatByteSize(static_cast<size_t>(cost.transfer_bytes + cost.update_bytes)).c_str(),
        FormatByteSize(static_cast<size_t>(cost.memory_bytes)).c_str());
  }
}

void PrintRow(const char* first, const WhatIf& row) {
  const int devices = row.configuration.degrees.Workers();
  std::printf("%-24s %-28s %7d %12.4g %12.4g %12.4g %12.4g", first,
              Describe(row.configuration.degrees).c_str(), devices, row.transfer_ms, row.compute_ms,
              row.update_ms, row.total_ms);
  if (row.best_total_ms) std::printf(" %12.5g", *row.best_total_ms);
  std::printf("\n");
}

void PrintHeader(const char* first) {
  std::printf("\n%-24s %-28s %7s %12s %12s %12s %12s %12s\n", first, "configuration", "devices",
              "transfer", "compute", "update", "total ms", "best plan");
}

void PrintLayers(const PlanningProblem& problem, const Layout& chosen, const Layout& deepa) {
  PrintHeader("layer");
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    const auto rows =
        WhatIfTable(problem, chosen.assignment, deepa.best_total_ms, static_cast<int>(at));
    PrintRow(problem.graph.layers[at].name.substr(0, 24).c_str(),
             rows[static_cast<size_t>(chosen.assignment[at])]);
  }
}

void PrintWhatIf(const PlanningProblem& problem, const Layout& chosen, const Layout& deepa,
                 int layer) {
  PrintHeader(problem.graph.layers[static_cast<size_t>(layer)].name.substr(0, 24).c_str());
  const auto rows = WhatIfTable(problem, chosen.assignment, deepa.best_total_ms, layer);
  for (size_t row = 0; row < rows.size(); ++row) {
    const bool taken = static_cast<int>(row) == chosen.assignment[static_cast<size_t>(layer)];
    PrintRow(taken ? "  chosen" : "", rows[row]);
  }
}

int MakePlan(const CLI::App& app, const PlanOptions& plan) {
  const auto refuse = [&](const Status& status) { return Refuse(app, status.message()); };
  const Result<Graph> graph = LoadNetwork(plan.net);
  if (!graph.ok()) return refuse(graph.status());
  const Result<int> batch = ParseBatch(plan.batch);
  if (!batch.ok()) return refuse(batch.status());
  const Result<Machine> machine = LoadMachine(plan.machine);
  if (!machine.ok()) return refuse(machine.status());
  const Result<Strategy> strategy = ParseStrategy(plan.strategy);
  if (!strategy.ok()) return refuse(strategy.status());
  const Result<UpdateModel> update = ParseUpdate(plan.update);
  if (!update.ok()) return refuse(update.status());
  Costs costs(*machine);
  if (Status status = ChooseModel(plan, *machine, *update, costs); !status.ok()) {
    return refuse(status);
  }
  PlanningOptions planning;
  planning.update = *update;
  planning.configurations.uneven = plan.uneven;
  planning.configurations.placements = plan.placements;
  for (const std::string& text : plan.pins) {
    Result<Pin> pin = ParsePin(text);
    if (!pin.ok()) return Refuse(app, "--" + pin.message());
    planning.configurations.pins.push_back(std::move(*pin));
  }
  Result<LayerGraph> layers = BuildLayerGraph(*graph, *batch);
  if (!layers.ok()) return refuse(layers.status());
  const int devices = machine->Devices();
  const Result<PlanningProblem> problem =
      BuildPlanningProblem(std::move(*layers), devices, *costs.model, planning);
  if (!problem.ok()) return refuse(problem.status());
  const int what_if = plan.what_if.empty() ? -1 : problem->graph.Find(plan.what_if);
  if (!plan.what_if.empty() && what_if < 0) {
    return Refuse(app, "--what-if " + Quoted(plan.what_if) + ": " + problem->graph.name +
                           " has no such layer");
  }
  SearchOptions search;
  search.marginals = true;
  const Result<std::vector<Layout>> layouts = CompareLayouts(*problem, devices, search);
  if (!layouts.ok()) return refuse(layouts.status());
  const Layout& deepa = layouts->back();
  const auto chosen = std::find_if(layouts->begin(), layouts->end(), [&](const Layout& layout) {
    return layout.strategy == *strategy;
  });
  if (chosen == layouts->end()) {
    return refuse(MakeLayout(*problem, devices, *strategy, search).status());
  }
  if (plan.json) {
    std::cout << FormatLayout(*problem, {machine->name, devices, plan.cost, plan.update}, *layouts,
                              *chosen);
    return 0;
  }
  std::printf("%s, batch %d, on %s (%d devices); costs: %s, update: %s\n",
              problem->graph.name.c_str(), *batch, machine->name.c_str(), devices,
              plan.cost.c_str(), plan.update.c_str());
  PrintStrategies(*layouts);
  if (deepa.optimal) {
    std::printf("deepa is optimal: no layout takes less\n");
  } else {
    std::printf("no layout takes less than %.4g ms\n", deepa.lower_bound_ms);
  }
  if (what_if >= 0) {
    PrintWhatIf(*problem, *chosen, deepa, what_if);
  } else {
    PrintLayers(*problem, *chosen, deepa);
  }
  return 0;
}

}  // namespace

Command AddPlan(CLI::App& ucudnn) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* app = AddSubcommand(ucudnn, "plan", "plan NET --machine FILE|NAME --batch N [OPTIONS]",
                                "find the layout of least time for training a network");
  app->add_option("NET", options->net,
                  "FILE.onnx, FILE.prototxt (Caffe), FILE.json (ucudnn-net),\n"
                  "or a built-in network (any other word lists them)")
      ->required()
      ->type_name("");
  app->add_option("--machine", options->machine,
                  "a machine's file or name (" + Join(MachineNames(), ", ") + "; NAME:N: nodes)")
      ->required()
      ->type_name("FILE|NAME");
  app->add_option("--batch", options->batch, "images in a mini-batch")->required()->type_name("N");
  app->add_option("--strategy", options->strategy,
                  "whose layout is shown: image, model, owt or deepa (deepa)")
      ->type_name("NAME");
  app->add_option("--cost", options->cost,
                  "roofline, deepa-paper, or a CSV table of times (roofline)")
      ->type_name("NAME|FILE");
  app->add_option("--update", options->update,
                  "gradients by parameter-server, ring, tree or hierarchical (parameter-server)")
      ->type_name("NAME");
  app->add_option("--pin", options->pins, "a layer's degrees, as fc6=c4; may be repeated")
      ->type_name("LAYER=DEGREES");
  app->add_flag("--uneven", options->uneven, "parts may differ by one element");
  app->add_flag("--placements", options->placements,
                "layers on part of the devices may be on any aligned group of them");
  app->add_option("--what-if", options->what_if, "show one layer in all its configurations")
      ->type_name("LAYER");
  app->add_flag("--json", options->json, "print JSON (ucudnn-layout) instead of tables");
  return {app, [app, options](const ProgramWords&) { return MakePlan(*app, *options); }};
}

}  // namespace ucudnn::command
