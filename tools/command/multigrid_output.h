// What `ucudnn multigrid` prints: tables and the JSON of docs/multigrid.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command/multigrid_words.h"
#include "planner/multigrid/host/network.h"
#include "planner/multigrid/host/training.h"
#include "planner/multigrid/problem.h"

namespace ucudnn::command {

// One pass through the network, with what --check found.
struct MultigridRun {
  std::vector<multigrid::StageSolution> stages;
  double seconds = 0;  // of the solve
  // Of serial propagation, and the relative error of the output against it, in L2.
  std::optional<double> serial_seconds;
  std::optional<double> output_error;
};

void PrintProblem(const MultigridWords& words, const multigrid::Problem& problem,
                  const MultigridSettings& settings);
void PrintRun(const MultigridSettings& settings, const MultigridRun& run);
std::string FormatRun(const MultigridWords& words, const multigrid::Problem& problem,
                      const MultigridSettings& settings, const MultigridRun& run);

void PrintEpochHead();
void PrintEpoch(int number, const multigrid::EpochResult& epoch, double seconds);
std::string FormatTraining(const MultigridWords& words, const multigrid::Problem& problem,
                           const MultigridSettings& settings,
                           const std::vector<multigrid::EpochResult>& epochs);

}  // namespace ucudnn::command
