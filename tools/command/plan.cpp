// `ucudnn plan`: how to divide a network's layers over a machine's devices.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/csv.h"
#include "base/text.h"
#include "command/command.h"
#include "command/layer_list.h"
#include "command/machine_file.h"
#include "command/output_file.h"
#include "command/plan_alternatives.h"
#include "command/plan_costs.h"
#include "command/plan_schedule.h"
#include "command/whole_number.h"
#include "planner/graph/network_file.h"
#include "planner/layout/strategies.h"
#include "planner/layout/what_if.h"
#include "planner/machine/presets.h"
#include "planner/report/layout_dot.h"
#include "planner/report/layout_json.h"
#include "planner/report/layout_page.h"
#include "planner/schedule/schedule_json.h"

namespace ucudnn::command {
namespace {

using namespace ucudnn::planner;
using planner::ParallelLayout;  // not that of tensors

struct PlanOptions {
  std::string net;
  std::string machine;
  std::string batch;
  std::string best;
  std::string frontier;
  std::string strategy = "deepa";
  CostWords costs;
  ScheduleWords schedule;
  std::string memory_limit;
  std::string what_if;
  std::string output;
  std::vector<std::string> pins;
  bool pass_through = false;
  std::string input;
  bool uneven = false;
  bool placements = false;
  bool reduction = false;
  bool json = false;
  bool boxes = false;
  bool dot = false;
  bool html = false;
};

// The number that `text` says; 0 where the option is not given.
Result<int> ParseCount(const char* option, const std::string& text, int most) {
  if (text.empty()) return 0;
  if (const auto count = WholeNumber<int>(text, 1, most)) return *count;
  return Status::Error(std::string(option) + " '" + text + "': accepted: 1 to " +
                       std::to_string(most));
}

// --memory-limit: a size, or what the machine's devices have.
Result<std::optional<int64_t>> ParseMemoryLimit(const std::string& text, const Machine& machine) {
  if (text.empty()) return std::optional<int64_t>();
  if (text == "device") return std::optional(machine.device.memory_bytes);
  const Result<size_t> bytes = ParseByteSize(text);
  if (!bytes.ok() || *bytes == 0 || *bytes > size_t{1} << 62) {
    return Status::Error("--memory-limit " + Quoted(text) +
                         ": expected device or a size from 1 B: " + kByteSizeForm);
  }
  return std::optional(static_cast<int64_t>(*bytes));
}

void PrintStrategies(const std::vector<ParallelLayout>& layouts) {
  std::printf("%-8s %12s %12s %12s %12s %12s %12s\n", "strategy", "total ms", "transfer", "compute",
              "update", "moved", "memory");
  for (const ParallelLayout& layout : layouts) {
    const LayoutCost& cost = layout.cost;
    std::printf(
        "%-8s %12.4g %12.4g %12.4g %12.4g %12s %12s\n", StrategyName(layout.strategy),
        cost.total_ms, cost.transfer_ms, cost.compute_ms, cost.update_ms,
        FormatByteSize(static_cast<size_t>(cost.transfer_bytes + cost.update_bytes)).c_str(),
        FormatByteSize(static_cast<size_t>(cost.memory_bytes)).c_str());
  }
}

void PrintRow(const char* first, const WhatIf& row, const std::string& why = "") {
  const int devices = row.configuration.degrees.Workers();
  std::printf("%-24s %-28s %7d %12.4g %12.4g %12.4g %12.4g", first,
              Describe(row.configuration.degrees).c_str(), devices, row.transfer_ms, row.compute_ms,
              row.update_ms, row.total_ms);
  if (row.best_total_ms) std::printf(" %12.5g", *row.best_total_ms);
  std::printf("%s%s\n", why.empty() ? "" : "  ", why.c_str());
}

void PrintHeader(const char* first) {
  std::printf("\n%-24s %-28s %7s %12s %12s %12s %12s %12s\n", first, "configuration", "devices",
              "transfer", "compute", "update", "total ms", "best plan");
}

void PrintLayers(const PlanningProblem& problem, const ParallelLayout& chosen,
                 const ParallelLayout& deepa) {
  PrintHeader("layer");
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    const auto rows =
        WhatIfTable(problem, chosen.assignment, deepa.best_total_ms, static_cast<int>(at));
    PrintRow(problem.graph.layers[at].name.substr(0, 24).c_str(),
             rows[static_cast<size_t>(chosen.assignment[at])],
             planner::WhyImagesAlone(problem.graph.layers[at], problem.configurations[at]));
  }
}

void PrintWhatIf(const PlanningProblem& problem, const ParallelLayout& chosen,
                 const ParallelLayout& deepa, int layer) {
  PrintHeader(problem.graph.layers[static_cast<size_t>(layer)].name.substr(0, 24).c_str());
  const auto rows = WhatIfTable(problem, chosen.assignment, deepa.best_total_ms, layer);
  for (size_t row = 0; row < rows.size(); ++row) {
    const bool taken = static_cast<int>(row) == chosen.assignment[static_cast<size_t>(layer)];
    PrintRow(taken ? "  chosen" : "", rows[row]);
  }
}

void PrintMemory(const ParallelLayout& chosen, const Machine& machine) {
  if (chosen.cost.memory_bytes <= machine.device.memory_bytes) return;
  std::printf("%s needs %s on a device, which has %s: --memory-limit device keeps to that\n",
              StrategyName(chosen.strategy),
              FormatByteSize(static_cast<size_t>(chosen.cost.memory_bytes)).c_str(),
              FormatByteSize(static_cast<size_t>(machine.device.memory_bytes)).c_str());
}

// One of the documents, or none: tables on the terminal.
Status CheckOutput(const PlanOptions& plan) {
  const int documents = plan.json + plan.dot + plan.html + plan.schedule.schedule;
  if (documents > 1) {
    return Status::Error("--json, --dot, --html and --schedule: one of them at a time");
  }
  for (const auto& [option, given] :
       {std::pair("--best", !plan.best.empty()), std::pair("--frontier", !plan.frontier.empty()),
        std::pair("--simulate", plan.schedule.simulate)}) {
    if (documents > 0 && given) {
      return Status::Error(
          std::string(option) +
          ": prints a table, which --json, --dot, --html and --schedule do not have");
    }
  }
  if (plan.boxes && !plan.json) return Status::Error("--boxes: adds to --json, which is missing");
  if (!plan.output.empty() && documents == 0) {
    return Status::Error(
        "-o " + Quoted(plan.output) +
        ": writes what --json, --dot, --html or --schedule print; one of them is missing");
  }
  return Status::Ok();
}

void PrintTables(const PlanningProblem& problem, const LayoutSetting& setting,
                 const std::vector<ParallelLayout>& layouts, const ParallelLayout& chosen,
                 const Machine& machine, int what_if) {
  const ParallelLayout& deepa = layouts.back();
  std::printf("%s, batch %d, on %s (%d devices); costs: %s, update: %s\n",
              problem.graph.name.c_str(), problem.graph.batch, setting.machine.c_str(),
              setting.devices, setting.cost.c_str(), setting.update.c_str());
  if (!setting.measured.empty()) std::printf("measured %s\n", setting.measured.c_str());
  PrintStrategies(layouts);
  if (deepa.optimal) {
    std::printf("deepa is optimal: no layout%s takes less\n",
                setting.memory_limit_bytes ? " within the memory limit" : "");
  } else {
    std::printf("no layout takes less than %.4g ms\n", deepa.lower_bound_ms);
  }
  PrintMemory(chosen, machine);
  if (what_if >= 0) {
    PrintWhatIf(problem, chosen, deepa, what_if);
  } else {
    PrintLayers(problem, chosen, deepa);
  }
}

// Whether --pin and --what-if name layers of the network, each pin another.
Status CheckLayers(const PlanOptions& plan, const std::vector<Pin>& pins,
                   const LayerGraph& layers) {
  const auto check = [&](const char* option, const std::string& name) {
    if (layers.Find(name) >= 0) return Status::Ok();
    std::vector<std::string> names;
    for (const auto& layer : layers.layers) names.push_back(layer.name);
    const std::string nearest = NearestName(name, names);
    return Status::Error(option + (" " + Quoted(name)) + ": " + layers.name +
                         " has no such layer; " +
                         (nearest.empty() ? "its layers are " + Join(names, ", ")
                                          : "did you mean " + nearest + "?"));
  };
  if (!plan.what_if.empty()) UCUDNN_RETURN_IF_ERROR(check("--what-if", plan.what_if));
  std::set<std::string> pinned;
  for (const Pin& pin : pins) {
    UCUDNN_RETURN_IF_ERROR(check("--pin", pin.layer));
    if (!pinned.insert(pin.layer).second) {
      return Status::Error("--pin: " + pin.layer + " is pinned twice; pin a layer once");
    }
  }
  return Status::Ok();
}

// What the command line asks for.
struct Question {
  Graph graph;
  PlanningProblem problem;
};

Result<Question> PoseProblem(const PlanOptions& plan, const Machine& machine,
                             const CostModel& model, UpdateModel update) {
  UCUDNN_ASSIGN_OR_RETURN(const auto reading, ParseImport(plan.pass_through, plan.input));
  UCUDNN_ASSIGN_OR_RETURN(Graph graph, LoadNetwork(plan.net, reading));
  UCUDNN_ASSIGN_OR_RETURN(const int batch, ParseBatch(plan.batch));
  PlanningOptions planning;
  planning.update = update;
  planning.configurations.uneven = plan.uneven;
  planning.configurations.placements = plan.placements;
  planning.configurations.reduction = plan.reduction;
  for (const std::string& text : plan.pins) {
    Result<Pin> pin = ParsePin(text);
    if (!pin.ok()) return Status::Error("--" + pin.message());
    planning.configurations.pins.push_back(std::move(*pin));
  }
  UCUDNN_ASSIGN_OR_RETURN(LayerGraph layers, BuildLayerGraph(graph, batch));
  UCUDNN_RETURN_IF_ERROR(CheckLayers(plan, planning.configurations.pins, layers));
  UCUDNN_ASSIGN_OR_RETURN(
      PlanningProblem problem,
      BuildPlanningProblem(std::move(layers), machine.Devices(), model, planning));
  return Question{std::move(graph), std::move(problem)};
}

// How gradients are summed. A schedule executes another model than deepa-paper counts with.
Result<UpdateModel> ChooseUpdate(const PlanOptions& plan, CostWords& costs) {
  if (!plan.schedule.IsAsked()) {
    if (costs.update.empty()) costs.update = UpdateName(UpdateModel::kParameterServer);
    const Result<UpdateModel> update = ParseUpdate(costs.update);
    if (!update.ok()) return Status::Error("--update " + update.message());
    return update;
  }
  UCUDNN_ASSIGN_OR_RETURN(const UpdateModel update, plan.schedule.Update(costs.update));
  costs.update = UpdateName(costs.cost == "deepa-paper" ? UpdateModel::kParameterServer : update);
  return update;
}

// What is printed behind the tables.
Status PrintMore(const PlanningProblem& problem, int best, int frontier) {
  if (best > 0) {
    if (const Status status = PrintBestPlans(problem, best); !status.ok()) {
      return Status::Error("--best: " + status.message());
    }
  }
  if (frontier > 0) {
    if (const Status status = PrintFrontier(problem, frontier); !status.ok()) {
      return Status::Error("--frontier: " + status.message());
    }
  }
  return Status::Ok();
}

// Whether best whole plans are shown of other configurations than the optimal layout's own, whose
// are known without a further search: of every layer (--what-if's are searched for one by one).
bool ShowsAllBestPlans(const PlanOptions& plan, Strategy strategy, int what_if) {
  if (plan.json) return true;
  if (plan.schedule.schedule) return false;
  const bool layers = plan.html || (!plan.dot && what_if < 0);
  return layers && strategy != Strategy::kDeePa;
}

int MakePlan(const CLI::App& app, const PlanOptions& plan) {
  const auto refuse = [&](const Status& status) { return Refuse(app, status.message()); };
  if (Status status = CheckOutput(plan); !status.ok()) return refuse(status);
  const Result<Machine> machine = LoadMachine(plan.machine);
  if (!machine.ok()) return refuse(machine.status());
  const Result<Strategy> strategy = ParseStrategy(plan.strategy);
  if (!strategy.ok()) return Refuse(app, "--strategy " + strategy.message());
  const Result<std::optional<int64_t>> memory_limit = ParseMemoryLimit(plan.memory_limit, *machine);
  if (!memory_limit.ok()) return refuse(memory_limit.status());
  const Result<int> best = ParseCount("--best", plan.best, 1000);
  if (!best.ok()) return refuse(best.status());
  const Result<int> frontier = ParseCount("--frontier", plan.frontier, 100);
  if (!frontier.ok()) return refuse(frontier.status());
  CostWords words = plan.costs;
  const Result<UpdateModel> update = ChooseUpdate(plan, words);
  if (!update.ok()) return refuse(update.status());
  const Result<ScheduleOptions> scheduling = plan.schedule.Options(*strategy, *update);
  if (!scheduling.ok()) return refuse(scheduling.status());
  PlanCosts costs;
  if (Status status = costs.Choose(words, *machine); !status.ok()) return refuse(status);
  const int devices = machine->Devices();
  LayoutSetting setting{machine->name, devices,   costs.name(), words.update, "",
                        *memory_limit, plan.boxes};
  if (words.update != UpdateName(*update)) {
    setting.update += std::string(", executed as ") + UpdateName(*update);
  }
  const Result<Question> question = PoseProblem(plan, *machine, costs.model(), *update);
  if (!question.ok()) return refuse(question.status());
  const PlanningProblem* const problem = &question->problem;
  if (!costs.measured_on().empty()) {
    Result<std::string> measured = MeasuredText(*problem, costs.measured_on());
    if (!measured.ok()) return refuse(measured.status());
    setting.measured = std::move(*measured);
  }
  const int what_if = plan.what_if.empty() ? -1 : problem->graph.Find(plan.what_if);
  SearchOptions search;
  search.marginals = ShowsAllBestPlans(plan, *strategy, what_if);
  Result<std::vector<ParallelLayout>> layouts =
      CompareLayouts(*problem, devices, search, *memory_limit);
  if (!layouts.ok()) {
    return Refuse(app, (*memory_limit ? "--memory-limit " + Quoted(plan.memory_limit) + ": " : "") +
                           layouts.message());
  }
  if (what_if >= 0 && !plan.json && !plan.dot && !*memory_limit) {
    Result<std::vector<std::optional<double>>> totals =
        BestTotals(problem->search, what_if, search);
    if (!totals.ok()) return Refuse(app, "--what-if: " + totals.message());
    layouts->back().best_total_ms[static_cast<size_t>(what_if)] = std::move(*totals);
  }
  const auto chosen =
      std::find_if(layouts->begin(), layouts->end(),
                   [&](const ParallelLayout& layout) { return layout.strategy == *strategy; });
  if (chosen == layouts->end()) {
    return refuse(MakeLayout(*problem, devices, *strategy, search).status());
  }
  if (plan.json) {
    return WriteOutput(app, FormatLayout(*problem, setting, *layouts, *chosen), plan.output);
  }
  if (plan.dot) return WriteOutput(app, FormatDot(*problem, *chosen), plan.output);
  if (plan.html) {
    return WriteOutput(app, FormatLayoutPage(*problem, setting, *layouts, *chosen, what_if),
                       plan.output);
  }
  if (!plan.schedule.IsAsked()) {
    PrintTables(*problem, setting, *layouts, *chosen, *machine, what_if);
    const Status status = PrintMore(*problem, *best, *frontier);
    return status.ok() ? 0 : refuse(status);
  }
  const Result<Schedule> schedule =
      BuildSchedule(question->graph, *problem, chosen->assignment, *machine, *scheduling);
  if (!schedule.ok()) return refuse(schedule.status());
  if (plan.schedule.schedule) return WriteOutput(app, FormatSchedule(*schedule), plan.output);
  PrintTables(*problem, setting, *layouts, *chosen, *machine, what_if);
  Status status = PrintMore(*problem, *best, *frontier);
  if (status.ok()) status = PrintSimulation(*schedule, *problem, *chosen, *machine);
  return status.ok() ? 0 : refuse(status);
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
                  "a machine's file or name (" + Join(MachineNames(), ", ") +
                      ";\nN nodes: " + ClusterNames() + ")")
      ->required()
      ->type_name("FILE|NAME");
  app->add_option("--batch", options->batch, "images in a mini-batch")->required()->type_name("N");
  app->add_flag("--pass-through", options->pass_through,
                "operators of a file that are not known pass their input through")
      ->disable_flag_override();
  AddInput(*app, options->input);
  app->add_option("--strategy", options->strategy,
                  "the layout that is shown layer by layer: image, model, owt or deepa (deepa)")
      ->type_name("NAME");
  options->costs.AddTo(*app);
  options->schedule.AddTo(*app);
  app->add_option("--memory-limit", options->memory_limit,
                  "the most memory that deepa's layout may take on a device: a size, or device for "
                  "all it has")
      ->type_name("SIZE|device");
  app->add_option("--pin", options->pins,
                  "fix a layer's degrees, for example fc6=c4; may be repeated")
      ->type_name("LAYER=DEGREES");
  app->add_flag("--uneven", options->uneven, "parts may differ by one element")
      ->disable_flag_override();
  app->add_flag("--placements", options->placements,
                "layers on part of the devices may be on any aligned group of them")
      ->disable_flag_override();
  app->add_flag("--reduction", options->reduction,
                "convolutions and fully connected layers may be divided along their input\n"
                "channels, too (r), whose partial sums are added up")
      ->disable_flag_override();
  app->add_option("--what-if", options->what_if, "show one layer in all its configurations")
      ->type_name("LAYER");
  app->add_option("--best", options->best, "show the K best layouts, too")->type_name("K");
  app->add_option("--frontier", options->frontier,
                  "show layouts that take less memory, too: at up to POINTS limits")
      ->type_name("POINTS");
  app->add_flag("--json", options->json, "print JSON (ucudnn-layout) instead of tables")
      ->disable_flag_override();
  app->add_flag("--boxes", options->boxes,
                "add to the JSON which device has which part of each tensor, and what moves")
      ->disable_flag_override();
  app->add_flag("--dot", options->dot, "print a graph for Graphviz instead of tables")
      ->disable_flag_override();
  app->add_flag("--html", options->html, "print a page that draws the network instead of tables")
      ->disable_flag_override();
  app->add_option("-o", options->output,
                  "write what --json, --dot, --html or --schedule print\nto a file")
      ->type_name("FILE");
  return {app, [app, options](const ProgramWords&) { return MakePlan(*app, *options); }};
}

}  // namespace ucudnn::command
