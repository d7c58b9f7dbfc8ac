// Solves of `ucudnn multigrid`: a network once, or at several depths. For use from main's thread
// only.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "command/multigrid/facts.h"
#include "command/multigrid/settings.h"

namespace ucudnn::command {

// One pass through a network, with the findings of --check.
struct SolvedNetwork {
  ProblemFacts facts;
  MultigridSettings settings;
  std::vector<multigrid::StageSolution> stages;
  multigrid::Placement placement;  // if there are several devices
  double seconds = 0;              // wall-clock time of the solve
  std::string machine;             // MultigridSettings::MachineText() after the solve
  // The seconds of serial propagation, and the relative error of the output against it, in L2.
  std::optional<double> serial_seconds;
  std::optional<double> output_error;

  const multigrid::StageSolution& LongestStage() const { return LongestOf(stages); }
};

// Solves once; if `checks`, compares with serial propagation. The error is one line: options do not
// fit the problem, or ask for more than the precision or this machine's memory allows. Several
// devices consume the problem's parameters.
Result<SolvedNetwork> SolveOnce(multigrid::Problem& problem, const MultigridSettings& settings,
                                bool checks);

// Refuses states for which this machine has no memory.
Status CheckStateMemory(const multigrid::Problem& problem,
                        const multigrid::NetworkSettings& settings, multigrid::Passes passes);

// Measures the cost of layers and messages, and divides the layers among ranks. `network` becomes
// the network of one of several ranks.
Result<multigrid::Placement> PlaceOnRanks(const multigrid::Problem& problem,
                                          const MultigridSettings& settings,
                                          multigrid::Passes passes, multigrid::Peers& all,
                                          multigrid::NetworkSettings& network);

}  // namespace ucudnn::command
