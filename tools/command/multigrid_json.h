// The JSON of `ucudnn multigrid`, `ucudnn-multigrid` (planner/report/FORMAT.md). Pure functions.
#pragma once

#include <string>
#include <vector>

#include "command/multigrid_solve.h"
#include "command/multigrid_training.h"
#include "command/solve_spec.h"

namespace ucudnn::command {

// Of one solve, or of one at each depth with --depths. REQUIRES: there is one.
std::string FormatSolves(const SolveSpec& spec, const std::vector<SolvedNetwork>& solves);

std::string FormatTraining(const SolveSpec& spec, const TrainingFacts& facts,
                           const std::vector<TrainedEpoch>& epochs);

}  // namespace ucudnn::command
