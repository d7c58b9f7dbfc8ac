// The tables and the JSON of `ucudnn multigrid`. Times are wall-clock times. If a solve ran on this
// machine's CPU, the output says so.
#pragma once

#include <string>
#include <vector>

#include "command/multigrid/solve.h"
#include "command/multigrid/solve_spec.h"
#include "command/multigrid/training.h"

namespace ucudnn::command {

void PrintSolve(const SolveSpec& spec, const SolvedNetwork& solved);
// Prints a table with a column for each depth.
void PrintDepths(const SolveSpec& spec, const std::vector<SolvedNetwork>& solves);

// Prints what is trained, and the head of the table of epochs.
void PrintTraining(const SolveSpec& spec, const TrainingFacts& facts);
void PrintEpoch(int number, const TrainedEpoch& epoch);

// Writes the format `ucudnn-multigrid` (planner/report/FORMAT.md). There is one solve or, with
// --depths, one solve for each depth. REQUIRES: there is a solve.
std::string FormatSolves(const SolveSpec& spec, const std::vector<SolvedNetwork>& solves);
std::string FormatTraining(const SolveSpec& spec, const TrainingFacts& facts,
                           const std::vector<TrainedEpoch>& epochs);

}  // namespace ucudnn::command
