// Training by `ucudnn multigrid --train`. Used from main's thread only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command/command.h"
#include "command/multigrid/facts.h"
#include "command/multigrid/ranks.h"
#include "command/multigrid/settings.h"
#include "planner/multigrid/host/training.h"

namespace ucudnn::command {

// The data, the problem and the settings of a training.
struct TrainingFacts {
  ProblemFacts problem;
  MultigridSettings settings;
  int examples = 0;
  int test_examples = 0;
  multigrid::Placement placement;  // only with several devices
};

struct TrainedEpoch {
  multigrid::EpochResult result;
  double seconds = 0;  // wall-clock time of the epoch and its test
};

// Trains `problem` as `spec` says, prints the table or the JSON, and writes the file of --report
// after each epoch. Returns the exit code. Moves the parameters out of `problem`.
int Train(const CLI::App& app, const SolveSpec& spec, multigrid::Problem& problem,
          const MultigridSettings& settings);

}  // namespace ucudnn::command
