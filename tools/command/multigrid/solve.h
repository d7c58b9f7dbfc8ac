// Solves of `ucudnn multigrid`. Used from main's thread only, except for PlaceOnRanks, which every
// rank calls (MultigridRanks::Run).
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "command/multigrid/facts.h"
#include "command/multigrid/settings.h"

namespace ucudnn::command {

// One forward pass through a network, and the results of --check.
struct SolvedNetwork {
  ProblemFacts facts;
  MultigridSettings settings;
  std::vector<multigrid::StageSolution> stages;
  multigrid::Placement placement;  // only with several devices
  double seconds = 0;              // wall-clock time of the solve
  std::string machine;             // MultigridSettings::MachineText() after the solve
  // Results of --check: the seconds of serial propagation, and the relative L2 error of the output
  // compared with the output of serial propagation.
  std::optional<double> serial_seconds;
  std::optional<double> output_error;

  const multigrid::StageSolution& LongestStage() const { return LongestOf(stages); }
};

// Solves once and, if `checks`, compares the output with that of serial propagation. Fails, with an
// error of one line, if the options do not fit the problem or memory is too small. If there are
// several ranks, moves the parameters out of `problem`.
Result<SolvedNetwork> SolveOnce(multigrid::Problem& problem, const MultigridSettings& settings,
                                bool checks);

// Fails if this machine has too little memory for the states.
Status CheckStateMemory(const multigrid::Problem& problem,
                        const multigrid::NetworkSettings& settings, multigrid::Passes passes);

// Measures the costs of layers and messages, and divides the layers among the ranks accordingly.
// Stores the costs in `network`. Called on every rank.
Result<multigrid::Placement> PlaceOnRanks(const multigrid::Problem& problem,
                                          const MultigridSettings& settings,
                                          multigrid::Passes passes, multigrid::Peers& all,
                                          multigrid::NetworkSettings& network);

}  // namespace ucudnn::command
