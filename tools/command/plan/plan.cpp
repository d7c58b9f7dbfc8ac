// `ucudnn plan`: divides a network's layers over a machine's devices.
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
#include "command/numbers.h"
#include "command/plan/alternatives.h"
#include "command/plan/costs.h"
#include "command/plan/schedule.h"
#include "command/text_table.h"
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
using planner::ParallelLayout;  // not the memory layout of tensors

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
  ImportWords reading;
  bool uneven = false;
  bool placements = false;
  bool reduction = false;
  bool json = false;
  bool boxes = false;
  bool dot = false;
  bool html = false;
};

// Returns the value of `option`, a number from 1 to `most`; 0 if the option is not given (empty).
Result<int> ParseCount(const char* option, const std::string& text, int most) {
  if (text.empty()) return 0;
  return ParseWhole(option, text, 1, most, "accepted: 1 to " + std::to_string(most));
}

// Returns the limit of --memory-limit: a size, or the memory of a device for the word `device`. It
// is unset if `text` is empty.
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

std::string MsText(double ms) { return NumberText("%.4g", ms); }
std::string SizeText(int64_t bytes) { return FormatByteSize(static_cast<size_t>(bytes)); }

void PrintStrategies(const std::vector<ParallelLayout>& layouts) {
  const TextColumns columns = {{"strategy", -8, 0}, {"total ms", 12}, {"transfer", 12},
                               {"compute", 12},     {"update", 12},   {"moved", 12},
                               {"memory", 12}};
  PrintHead(columns);
  for (const ParallelLayout& layout : layouts) {
    const LayoutCost& cost = layout.cost;
    PrintRow(columns,
             {StrategyName(layout.strategy), MsText(cost.total_ms), MsText(cost.transfer_ms),
              MsText(cost.compute_ms), MsText(cost.update_ms),
              SizeText(cost.transfer_bytes + cost.update_bytes), SizeText(cost.memory_bytes)});
  }
}

// Returns the columns of the tables that PrintChoices prints. `first` is the first column's title.
TextColumns ChoiceColumns(const std::string& first) {
  return {{first, -24, 0}, {"configuration", -28}, {"devices", 7},   {"transfer", 12},
          {"compute", 12}, {"update", 12},         {"total ms", 12}, {"best plan", 12}};
}

void PrintChoice(const std::string& first, const WhatIf& row, const std::string& why = "") {
  const Degrees& degrees = row.configuration.degrees;
  std::vector<std::string> cells = {first,
                                    Describe(degrees),
                                    std::to_string(degrees.Workers()),
                                    MsText(row.transfer_ms),
                                    MsText(row.compute_ms),
                                    MsText(row.update_ms),
                                    MsText(row.total_ms)};
  if (row.best_total_ms) cells.push_back(NumberText("%.5g", *row.best_total_ms));
  PrintRow(ChoiceColumns(""), cells, (why.empty() ? "" : "  ") + why);
}

// Prints a table of all layers with their chosen configurations or, if `what_if` is not negative, a
// table of all configurations of layer `what_if`.
void PrintChoices(const PlanningProblem& problem, const ParallelLayout& chosen,
                  const ParallelLayout& deepa, int what_if) {
  const std::vector<PlannedLayer>& layers = problem.graph.layers;
  const auto name = [&](size_t at) { return layers[at].name.substr(0, 24); };
  const auto rows_of = [&](size_t at) {
    return WhatIfTable(problem, chosen.assignment, deepa.best_total_ms, static_cast<int>(at));
  };
  std::printf("\n");
  if (what_if < 0) {
    PrintHead(ChoiceColumns("layer"));
    for (size_t at = 0; at < layers.size(); ++at) {
      PrintChoice(name(at), rows_of(at)[static_cast<size_t>(chosen.assignment[at])],
                  planner::WhyImagesAlone(layers[at], problem.configurations[at]));
    }
    return;
  }
  const auto layer = static_cast<size_t>(what_if);
  PrintHead(ChoiceColumns(name(layer)));
  int number = 0;
  for (const WhatIf& row : rows_of(layer)) {
    PrintChoice(number++ == chosen.assignment[layer] ? "  chosen" : "", row);
  }
}

void PrintMemory(const ParallelLayout& chosen, const Machine& machine) {
  if (chosen.cost.memory_bytes <= machine.device.memory_bytes) return;
  std::printf("%s needs %s on a device, which has %s: --memory-limit device keeps to that\n",
              StrategyName(chosen.strategy), SizeText(chosen.cost.memory_bytes).c_str(),
              SizeText(machine.device.memory_bytes).c_str());
}

// Fails if options about the output contradict each other. There is at most one document; without
// one, tables are printed.
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
  std::printf("%s, batch %d, on %s (%s); costs: %s, update: %s\n", problem.graph.name.c_str(),
              problem.graph.batch, setting.machine.c_str(),
              Counted(setting.devices, "device").c_str(), setting.cost.c_str(),
              setting.update.c_str());
  if (!setting.measured.empty()) std::printf("measured %s\n", setting.measured.c_str());
  PrintStrategies(layouts);
  if (deepa.optimal) {
    std::printf("deepa is optimal: no layout%s takes less\n",
                setting.memory_limit_bytes ? " within the memory limit" : "");
  } else {
    std::printf("no layout takes less than %.4g ms\n", deepa.lower_bound_ms);
  }
  PrintMemory(chosen, machine);
  PrintChoices(problem, chosen, deepa, what_if);
}

// Fails unless --pin and --what-if name layers of the network, and no two pins name the same layer.
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

// The network that the command line names, and its planning problem.
struct Question {
  Graph graph;
  PlanningProblem problem;
};

Result<Question> PoseProblem(const PlanOptions& plan, const Machine& machine,
                             const CostModel& model, UpdateModel update) {
  UCUDNN_ASSIGN_OR_RETURN(const auto reading, plan.reading.Parse());
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
  if (plan.schedule.IsAsked()) planning.configurations.is_accepted = HasRule(graph);
  UCUDNN_ASSIGN_OR_RETURN(LayerGraph layers, BuildLayerGraph(graph, batch));
  UCUDNN_RETURN_IF_ERROR(CheckLayers(plan, planning.configurations.pins, layers));
  UCUDNN_ASSIGN_OR_RETURN(
      PlanningProblem problem,
      BuildPlanningProblem(std::move(layers), machine.Devices(), model, planning));
  return Question{std::move(graph), std::move(problem)};
}

// Returns the update model of the plan, and sets costs.update to the update model of the costs. The
// two differ only if a schedule is requested with --cost deepa-paper: these costs assume a
// parameter server, which no schedule can run.
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

// Returns `status` with the option's name in its message.
Status Named(const char* option, const Status& status) {
  return status.ok() ? status : Status::Error(option + (": " + status.message()));
}

// Prints the tables of --best and --frontier.
Status PrintMore(const PlanningProblem& problem, int best, int frontier) {
  if (best > 0) UCUDNN_RETURN_IF_ERROR(Named("--best", PrintBestPlans(problem, best)));
  return frontier > 0 ? Named("--frontier", PrintFrontier(problem, frontier)) : Status::Ok();
}

// Returns whether the search must compute, for each configuration of each layer, the best plan that
// has it. For --what-if, BestTotals() computes this for a single layer.
bool ShowsAllBestPlans(const PlanOptions& plan, Strategy strategy, int what_if) {
  if (plan.json) return true;
  if (plan.schedule.schedule) return false;
  const bool layers = plan.html || (!plan.dot && what_if < 0);
  return layers && strategy != Strategy::kDeePa;
}

Result<int> MakePlan(const CLI::App& app, const PlanOptions& plan) {
  UCUDNN_RETURN_IF_ERROR(CheckOutput(plan));
  UCUDNN_ASSIGN_OR_RETURN(const Machine machine, LoadMachine(plan.machine));
  const Result<Strategy> strategy = ParseStrategy(plan.strategy);
  if (!strategy.ok()) return Status::Error("--strategy " + strategy.message());
  UCUDNN_ASSIGN_OR_RETURN(const auto memory_limit, ParseMemoryLimit(plan.memory_limit, machine));
  UCUDNN_ASSIGN_OR_RETURN(const int best, ParseCount("--best", plan.best, 1000));
  UCUDNN_ASSIGN_OR_RETURN(const int frontier, ParseCount("--frontier", plan.frontier, 100));
  CostWords words = plan.costs;
  UCUDNN_ASSIGN_OR_RETURN(const UpdateModel update, ChooseUpdate(plan, words));
  UCUDNN_ASSIGN_OR_RETURN(const ScheduleOptions scheduling,
                          plan.schedule.Options(*strategy, update));
  PlanCosts costs;
  UCUDNN_RETURN_IF_ERROR(costs.Choose(words, machine));
  const int devices = machine.Devices();
  LayoutSetting setting{machine.name, devices,      costs.name(), words.update,
                        "",           memory_limit, plan.boxes};
  if (words.update != UpdateName(update)) {
    setting.update += std::string(", executed as ") + UpdateName(update);
  }
  UCUDNN_ASSIGN_OR_RETURN(const Question question,
                          PoseProblem(plan, machine, costs.model(), update));
  const PlanningProblem& problem = question.problem;
  if (!costs.measured_on().empty()) {
    UCUDNN_ASSIGN_OR_RETURN(setting.measured, MeasuredText(problem, costs.measured_on()));
  }
  const int what_if = plan.what_if.empty() ? -1 : problem.graph.Find(plan.what_if);
  SearchOptions search;
  search.marginals = ShowsAllBestPlans(plan, *strategy, what_if);
  Result<std::vector<ParallelLayout>> layouts =
      CompareLayouts(problem, devices, search, memory_limit);
  if (!layouts.ok()) {
    return Status::Error(
        (memory_limit ? "--memory-limit " + Quoted(plan.memory_limit) + ": " : "") +
        layouts.message());
  }
  if (what_if >= 0 && !plan.json && !plan.dot && !memory_limit) {
    auto totals = BestTotals(problem.search, what_if, search);
    UCUDNN_RETURN_IF_ERROR(Named("--what-if", totals.status()));
    layouts->back().best_total_ms[static_cast<size_t>(what_if)] = std::move(*totals);
  }
  const auto chosen =
      std::find_if(layouts->begin(), layouts->end(),
                   [&](const ParallelLayout& layout) { return layout.strategy == *strategy; });
  if (chosen == layouts->end()) return MakeLayout(problem, devices, *strategy, search).status();
  const auto write = [&](const std::string& document) {
    return WriteOutput(app, document, plan.output);
  };
  if (plan.json) return write(FormatLayout(problem, setting, *layouts, *chosen));
  if (plan.dot) return write(FormatDot(problem, *chosen));
  if (plan.html) return write(FormatLayoutPage(problem, setting, *layouts, *chosen, what_if));
  std::optional<Schedule> schedule;
  if (plan.schedule.IsAsked()) {
    UCUDNN_ASSIGN_OR_RETURN(
        schedule, BuildSchedule(question.graph, problem, chosen->assignment, machine, scheduling));
  }
  if (plan.schedule.schedule) return write(FormatSchedule(*schedule));
  PrintTables(problem, setting, *layouts, *chosen, machine, what_if);
  UCUDNN_RETURN_IF_ERROR(PrintMore(problem, best, frontier));
  if (schedule) UCUDNN_RETURN_IF_ERROR(PrintSimulation(*schedule, problem, *chosen, machine));
  return 0;
}

}  // namespace

Command AddPlan(CLI::App& ucudnn) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* app = AddSubcommand(ucudnn, "plan", "plan NET --machine FILE|NAME --batch N [OPTIONS]",
                                "find the layout of least time for training a network");
  AddNetwork(*app, "NET", options->net);
  AddOption(*app, "--machine", options->machine, "FILE|NAME",
            "a machine's file or name (" + Join(MachineNames(), ", ") +
                ";\nN nodes: " + ClusterNames() + ")")
      ->required();
  AddOption(*app, "--batch", options->batch, "N", "images in a mini-batch")->required();
  options->reading.AddTo(*app);
  AddOption(*app, "--strategy", options->strategy, "NAME",
            "the layout shown by layer: image (data parallelism), model, owt or deepa (deepa)");
  options->costs.AddTo(*app);
  options->schedule.AddTo(*app);
  AddOption(*app, "--memory-limit", options->memory_limit, "SIZE|device",
            "the most memory that deepa's layout may take on a device: a size, or device for "
            "all it has");
  AddOption(*app, "--pin", options->pins, "LAYER=DEGREES",
            "fix how many parts a layer has along n, c, h, w and input channels r, for example "
            "conv1=n4h2 or fc6=c4; may be repeated");
  AddFlag(*app, "--uneven", options->uneven, "parts may differ by one element");
  AddFlag(*app, "--placements", options->placements,
          "a layer on D of the devices may be on any D that begin at a multiple of D");
  AddFlag(*app, "--reduction", options->reduction,
          "convolutions and fully connected layers may be divided along their input\n"
          "channels, too (r), whose partial sums are added up");
  AddOption(*app, "--what-if", options->what_if, "LAYER",
            "show one layer in all its configurations");
  AddOption(*app, "--best", options->best, "K", "show the K best layouts, too");
  AddOption(*app, "--frontier", options->frontier, "POINTS",
            "show layouts that take less memory, too, for up to POINTS memory limits");
  AddFlag(*app, "--json", options->json, "print JSON (ucudnn-layout) instead of tables");
  AddFlag(*app, "--boxes", options->boxes,
          "add to the JSON which device has which part of each tensor, and what moves");
  AddFlag(*app, "--dot", options->dot, "print a graph for Graphviz instead of tables");
  AddFlag(*app, "--html", options->html, "print a page that draws the network instead of tables");
  AddOption(*app, "-o", options->output, "FILE",
            "write what --json, --dot, --html or --schedule print\nto a file");
  return {app, [app, options](const ProgramWords&) { return MakePlan(*app, *options); }};
}

}  // namespace ucudnn::command
