// The tables of `ucudnn multigrid`. Times are by the clock, on this machine's CPU, and say so.
#pragma once

#include <string>
#include <vector>

#include "command/multigrid_solve.h"
#include "command/multigrid_training.h"
#include "command/solve_spec.h"

namespace ucudnn::command {

void PrintSolve(const SolveSpec& spec, const SolvedNetwork& solved);
// A column for each depth.
void PrintDepths(const SolveSpec& spec, const std::vector<SolvedNetwork>& solves);

// What is trained, and the head of the table of epochs.
void PrintTraining(const SolveSpec& spec, const TrainingFacts& facts);
void PrintEpoch(int number, const TrainedEpoch& epoch);

}  // namespace ucudnn::command
