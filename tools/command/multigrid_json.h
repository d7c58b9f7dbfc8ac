// The JSON of `ucudnn multigrid`, `ucudnn-multigrid` (planner/report/FORMAT.md). Pure functions.
#pragma once

#include <string>
#include <vector>

#include "command/multigrid_solve.h"
#include "command/multigrid_training.h"
#include "command/multigrid_words.h"

namespace ucudnn::command {

// Of one solve, or of one at each depth with --depths. REQUIRES: there is one.
std::string FormatSolves(const MultigridWords& words, const std::vector<SolvedNetwork>& solves);

std::string FormatTraining(const MultigridWords& words, const TrainingFacts& facts,
                           const std::vector<TrainedEpoch>& epochs);

}  // namespace ucudnn::command
