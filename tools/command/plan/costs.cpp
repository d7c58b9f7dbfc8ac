#include "command/plan/costs.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/csv.h"
#include "base/log.h"
#include "base/text.h"
#include "base/text_file.h"
#include "cudnn/descriptors.h"
#include "options/options.h"
#include "planner/cost/deepa_paper.h"

namespace ucudnn::command {
namespace {

using namespace ucudnn::planner;

constexpr const char* kMeasured = "measured";

// Returns the name of the cost model. Fails if --db, --device or --workspace-limit is given for a
// model that uses no measurements.
Result<std::string> CostName(const CostWords& words) {
  const bool db = words.variables.Given("UCUDNN_DATABASE");
  const bool device = !words.device.empty();
  const bool limit = words.variables.Given("UCUDNN_WORKSPACE_LIMIT");
  if (words.cost.empty() && db && device) return std::string(kMeasured);
  if (words.cost != kMeasured && (db || device || limit)) {
    return Status::Error(std::string(db       ? "--db"
                                     : device ? "--device"
                                              : "--workspace-limit") +
                         ": belongs to --cost measured, which --db and --device together mean");
  }
  return words.cost.empty() ? "roofline" : words.cost;
}

}  // namespace

void CostWords::AddTo(CLI::App& app) {
  AddOption(app, "--cost", cost, "NAME|FILE",
            "roofline, deepa-paper, measured (convolutions from a store), or a CSV\n"
            "table of times (measured with --db and --device, else roofline)");
  AddOption(app, "--device", device, "NAME",
            "the device whose measurements are used, where the stores hold several");
  variables.Describe("UCUDNN_DATABASE", "paths separated by colons",
                     "none: nothing measured is used");
  variables.AddOnly(app, "UCUDNN_DATABASE");
  variables.AddOnly(app, "UCUDNN_WORKSPACE_LIMIT");
  AddOption(app, "--update", update, "NAME",
            "how gradients are summed: parameter-server, ring, tree, hierarchical or owner\n"
            "(parameter-server)");
}

Status PlanCosts::Measured(const CostWords& words) {
  UCUDNN_RETURN_IF_ERROR(words.variables.Check());
  words.variables.Export();
  std::vector<std::string> warnings;
  const Options options = OptionsOfEnvironment(warnings, Use::kPlanning);
  for (const std::string& warning : warnings) WarnOnce(warning, warning);
  if (options.workspace_limit_auto) {
    return Status::Error(
        "--workspace-limit 'auto': comes from a device's free memory, and there is "
        "none offline (accepted: caller or a size)");
  }
  UCUDNN_ASSIGN_OR_RETURN(rows_, ReadOfflineRows(options, words.device));
  const size_t limit = options.workspace_limit.value_or(std::numeric_limits<size_t>::max());
  // A model looks for a time in its own rows and then asks the model before it. So the last model
  // takes precedence: rows of legacy engines with the alignment of a program's legacy calls.
  for (const int alignment : {1, int{cudnn::kLegacyAlignment}}) {
    for (const Api api : {Api::kGraph, Api::kLegacy}) {
      ApiRows& store = stores_.emplace_back(rows_, api);
      compute_ = &measured_.emplace_back(store, planning::Platform{rows_.device, 0, 0}, limit,
                                         *compute_, alignment);
    }
  }
  return Status::Ok();
}

Status PlanCosts::Choose(const CostWords& words, const Machine& machine) {
  const Result<UpdateModel> update = ParseUpdate(words.update);
  if (!update.ok()) return Status::Error("--update " + update.message());
  UCUDNN_ASSIGN_OR_RETURN(name_, CostName(words));
  if (name_ == "deepa-paper") {
    if (*update != UpdateModel::kParameterServer) {
      return Status::Error("--update " + words.update +
                           ": deepa-paper knows parameter-server only");
    }
    model_ = std::make_unique<DeePaPaperModel>();
    return Status::Ok();
  }
  compute_ = &roofline_.emplace(machine.device);
  if (name_ == kMeasured) {
    UCUDNN_RETURN_IF_ERROR(Measured(words));
  } else if (name_ != "roofline") {
    const Result<std::string> text = ReadTextFile(name_);
    if (!text.ok()) {
      return Status::Error("--cost " + text.message() +
                           "; it is neither roofline nor deepa-paper nor measured");
    }
    Result<ComputeTable> table = ComputeTable::Parse(*text, name_, *roofline_);
    if (!table.ok()) return Status::Error("--cost " + table.message());
    compute_ = &table_.emplace(std::move(*table));
  }
  model_ = std::make_unique<MachineCostModel>(machine, *update, *compute_);
  return Status::Ok();
}

Result<std::string> MeasuredText(const PlanningProblem& problem, const std::string& device) {
  size_t all = 0;
  size_t measured = 0;
  for (size_t at = 0; at < problem.graph.layers.size(); ++at) {
    if (!std::holds_alternative<Convolution>(problem.graph.layers[at].op)) continue;
    for (const ComputeModel::Cost& cost : problem.compute[at]) {
      ++all;
      if (cost.measured) ++measured;
    }
  }
  if (measured == 0) {
    return Status::Error("--cost measured: " + Quoted(device) +
                         " has no measurements of a share of " + problem.graph.name +
                         "'s convolutions at " + std::to_string(problem.graph.batch) +
                         " images; `ucudnn bench` makes them");
  }
  return "on " + device + ", " + std::to_string(measured) + " of " + std::to_string(all) +
         " configurations of convolutions; others: roofline";
}

}  // namespace ucudnn::command
