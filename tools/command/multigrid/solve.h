// Solves of `ucudnn multigrid`. Used from main's thread only, except for PlaceOnRanks, which every
// rank calls (MultigridRanks::Run).
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "command/multigrid/facts.h"
#include "command/multigrid/settings.h"

namespace ucudnn::command {

// One pass through a network, and the findings of --check.
struct SolvedNetwork {
  ProblemFacts facts;
  MultigridSettings settings;
  std::vector<multigrid::StageSolution> stages;
  multigrid::Placement placement;  // only with several devices
  double seconds = 0;              // wall-clock time of the solve
  std::string machine;             // MultigridSettings::MachineText() after the solve
  // The seconds of serial propagation, and the relative error of the output against it in L2.
  std::optional<double> serial_seconds;
  std::optional<double> output_error;

  const multigrid::StageSolution& LongestStage() const { return LongestOf(stages); }
};

// Solves once and, if `checks`, compares with serial propagation. The error is one line: options do
// not fit the problem, or they exceed the precision or this machine's memory. With several devices,
// the problem's parameters are moved out.
Result<SolvedNetwork> SolveOnce(multigrid::Problem& problem, const MultigridSettings& settings,
                                bool checks);

// Fails if this machine has too little memory for the states.
Status CheckStateMemory(const multigrid::Problem& problem,
                        const multigrid::NetworkSettings& settings, multigrid::Passes passes);

// Measures the costs of layers and messages, and divides the layers among ranks. Sets the members
// of `network` that concern this rank.
Result<multigrid::Placement> PlaceOnRanks(const multigrid::Problem& problem,
                                          const MultigridSettings& settings,
                                          multigrid::Passes passes, multigrid::Peers& all,
                                          multigrid::NetworkSettings& network);

}  // namespace ucudnn::command
