#include "command/plan/schedule.h"

#include <cstdio>
#include <utility>

#include "base/text.h"
#include "command/command.h"
#include "command/numbers.h"
#include "planner/schedule/simulate_step.h"

namespace ucudnn::command {
namespace {

using namespace ucudnn::planner;
using planner::ParallelLayout;  // not the memory layout of tensors

}  // namespace

void ScheduleWords::AddTo(CLI::App& app) {
  AddFlag(app, "--schedule", schedule,
          "print the schedule that ucudnn.parallel executes (ucudnn-schedule) instead of\n"
          "tables; --update is owner or hierarchical then (owner)");
  AddFlag(app, "--simulate", simulate,
          "simulate a step of the schedule, with and without overlap, too");
  AddOption(app, "--scheme", scheme, "a|b|c",
            "how fully connected layers of --strategy owt get their images: a (all at once),\n"
            "b (those of one worker after those of another) or c (a share of each worker's) (a)");
  AddOption(app, "--passes", passes, "K",
            "in how many passes b and c take them (as many as workers)");
  AddOption(app, "--update-every", update_every, "pass|batch",
            "when fully connected layers are updated in b and c (batch)");
}

Result<UpdateModel> ScheduleWords::Update(const std::string& update) const {
  if (update.empty()) return UpdateModel::kOwner;
  const Result<UpdateModel> model = ParseUpdate(update);
  if (!model.ok()) return Status::Error("--update " + model.message());
  if (*model == UpdateModel::kOwner || *model == UpdateModel::kHierarchical) return model;
  return Status::Error("--update " + update + ": is a model that no schedule executes; " +
                       (schedule ? "--schedule" : "--simulate") + " takes owner or hierarchical");
}

Result<ScheduleOptions> ScheduleWords::Options(Strategy strategy, UpdateModel update) const {
  ScheduleOptions options;
  options.update = update;
  for (const auto& [option, text] : {std::pair("--scheme", scheme), std::pair("--passes", passes),
                                     std::pair("--update-every", update_every)}) {
    if (text.empty()) continue;
    if (!IsAsked()) {
      return Status::Error(std::string(option) +
                           ": belongs to --schedule or --simulate, which are missing");
    }
    if (strategy != Strategy::kOwt) {
      return Status::Error(std::string(option) + ": belongs to --strategy owt");
    }
  }
  if (!scheme.empty() && scheme != "a" && scheme != "b" && scheme != "c") {
    return Status::Error("--scheme " + Quoted(scheme) + ": expected a, b or c");
  }
  if (!scheme.empty()) options.scheme = scheme.front();
  if (options.scheme == 'a' && !(passes.empty() && update_every.empty())) {
    return Status::Error(std::string(passes.empty() ? "--update-every" : "--passes") +
                         ": belongs to --scheme b or c; a takes all images in one pass");
  }
  if (!passes.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(options.passes,
                            ParseWhole("--passes", passes, 1, 4096, "expected 1 to 4096"));
  }
  if (update_every == "pass") {
    options.connected_update = ConnectedUpdate::kEachPass;
  } else if (!update_every.empty() && update_every != "batch") {
    return Status::Error("--update-every " + Quoted(update_every) + ": expected pass or batch");
  }
  return options;
}

Status PrintSimulation(const Schedule& schedule, const PlanningProblem& problem,
                       const ParallelLayout& layout, const Machine& machine) {
  const std::vector<NodeTimes> times = TimesOf(schedule, problem, layout.assignment);
  UCUDNN_ASSIGN_OR_RETURN(const simulate::Timeline with,
                          SimulateStep(ProgramOf(schedule, times, StepOverlap::kFull), machine));
  UCUDNN_ASSIGN_OR_RETURN(const simulate::Timeline without,
                          SimulateStep(ProgramOf(schedule, times, StepOverlap::kNone), machine));
  std::printf(
      "\na step of %s, modelled: %s with overlap, %s without, %s as equation 1 adds it up\n",
      StrategyName(layout.strategy), Milliseconds(with.makespan_ms).c_str(),
      Milliseconds(without.makespan_ms).c_str(), Milliseconds(layout.cost.total_ms).c_str());
  return Status::Ok();
}

}  // namespace ucudnn::command
