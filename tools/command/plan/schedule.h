// `ucudnn plan --schedule` and `--simulate`: the plan as a schedule, and the time of one of its
// steps. Used from main's thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/status.h"
#include "planner/layout/strategies.h"
#include "planner/machine/machine.h"
#include "planner/schedule/build_schedule.h"

namespace ucudnn::command {

// The words of the command line. CLI11 fills the members.
struct ScheduleWords {
  bool schedule = false;
  bool simulate = false;
  std::string scheme;
  std::string passes;
  std::string update_every;

  void AddTo(CLI::App& app);

  bool IsAsked() const { return schedule || simulate; }
  // Returns the update of a plan that is executed: `update`, or owner if that is empty. Fails for
  // an update that exists only as a model.
  Result<planner::UpdateModel> Update(const std::string& update) const;
  // The error names the option that contradicts others.
  Result<planner::ScheduleOptions> Options(planner::Strategy strategy,
                                           planner::UpdateModel update) const;
};

// Prints the time of a step, simulated with and without overlap, and as the sum of equation 1. If a
// schedule deadlocks, the error says why.
Status PrintSimulation(const planner::Schedule& schedule, const planner::PlanningProblem& problem,
                       const planner::ParallelLayout& layout, const planner::Machine& machine);

}  // namespace ucudnn::command
