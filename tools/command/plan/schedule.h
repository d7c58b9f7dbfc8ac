// `ucudnn plan --schedule` and `--simulate`: the plan as a schedule, and the simulated time of one
// training step. Used from main's thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/status.h"
#include "planner/layout/strategies.h"
#include "planner/machine/machine.h"
#include "planner/schedule/build_schedule.h"

namespace ucudnn::command {

// The values of the options, which CLI11 stores in the members.
struct ScheduleWords {
  bool schedule = false;
  bool simulate = false;
  std::string scheme;
  std::string passes;
  std::string update_every;

  void AddTo(CLI::App& app);

  bool IsAsked() const { return schedule || simulate; }
  // Returns the update model of a schedule: the one named `update`, or owner if `update` is empty.
  // Fails if no schedule can execute that model.
  Result<planner::UpdateModel> Update(const std::string& update) const;
  // Returns the options of the schedule. Fails if an option has a wrong value or contradicts
  // another option; the error names the option.
  Result<planner::ScheduleOptions> Options(planner::Strategy strategy,
                                           planner::UpdateModel update) const;
};

// Prints three times of a step: simulated with overlap, simulated without overlap, and as the sum
// of equation 1 (DeePa). If the schedule deadlocks, the error says why.
Status PrintSimulation(const planner::Schedule& schedule, const planner::PlanningProblem& problem,
                       const planner::ParallelLayout& layout, const planner::Machine& machine);

}  // namespace ucudnn::command
