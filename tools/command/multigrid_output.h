// The tables of `ucudnn multigrid`. Times are by the clock, on this machine's CPU, and say so.
#pragma once

#include <string>
#include <vector>

#include "command/multigrid_solve.h"
#include "command/multigrid_training.h"
#include "command/multigrid_words.h"

namespace ucudnn::command {

void PrintSolve(const MultigridWords& words, const SolvedNetwork& solved);
// A column for each depth.
void PrintDepths(const MultigridWords& words, const std::vector<SolvedNetwork>& solves);

// What is trained, and the head of the table of epochs.
void PrintTraining(const MultigridWords& words, const TrainingFacts& facts);
void PrintEpoch(int number, const TrainedEpoch& epoch);

// "L2, absolute".
const char* NormText(const multigrid::SolveOptions& options);
// "FCF", of each level with commas between.
std::string RelaxationText(const multigrid::SolveOptions& options);

}  // namespace ucudnn::command
