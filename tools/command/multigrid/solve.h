// Solves of `ucudnn multigrid`: a network once, or at several depths. Used from main's thread only.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "command/multigrid/facts.h"
#include "command/multigrid/settings.h"

namespace ucudnn::command {

// One pass through a network, with what --check found.
struct SolvedNetwork {
  ProblemFacts facts;
  MultigridSettings settings;
  std::vector<multigrid::StageSolution> stages;
  multigrid::Placement placement;  // where there are several devices
  double seconds = 0;              // of the solve, by the clock
  std::string machine;             // MultigridSettings::MachineText, behind the solve
  // Of serial propagation, and the relative error of the output against it, in L2.
  std::optional<double> serial_seconds;
  std::optional<double> output_error;

  const multigrid::StageSolution& LongestStage() const;
};

// `checks`: compared with serial propagation. An error in one line: options that do not fit the
// problem, or that ask for more than the precision or this machine's memory has. Several devices
// use the problem's parameters up.
Result<SolvedNetwork> SolveOnce(multigrid::Problem& problem, const MultigridSettings& settings,
                                bool checks);

// Refuses states that this machine has no memory for.
Status CheckStateMemory(const multigrid::Problem& problem,
                        const multigrid::NetworkSettings& settings, multigrid::Passes passes);

// Measures what layers and messages cost, and shares the layers out: `network` becomes one of a
// rank of several.
Result<multigrid::Placement> PlaceOnRanks(const multigrid::Problem& problem,
                                          const MultigridSettings& settings,
                                          multigrid::Passes passes, multigrid::Peers& all,
                                          multigrid::NetworkSettings& network);

}  // namespace ucudnn::command
