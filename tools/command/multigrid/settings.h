// What a spec of `ucudnn multigrid` means for a problem and this machine. Used from main's thread
// only.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "command/multigrid/device.h"
#include "command/multigrid/ranks.h"
#include "command/multigrid/solve_spec.h"
#include "planner/multigrid/host/network.h"
#include "planner/multigrid/problem.h"

namespace ucudnn::command {

// What is solved, from --weights, --layers, --seed, --time and the like.
Result<multigrid::Problem> ReadProblem(const SolveSpec& spec);
// The same for processes, each of which draws its own parameters where they are drawn.
Result<multigrid::Problem> ReadSharedProblem(const SolveSpec& spec);
// The same, but without parameters and image where they would be drawn.
Result<multigrid::Problem> ReadUndrawnProblem(const SolveSpec& spec);

// How and where.
struct MultigridSettings {
  multigrid::NetworkSettings network;
  std::shared_ptr<MultigridDevice> device;  // null: the host. Solves network's stages
  std::shared_ptr<MultigridRanks> ranks;    // whose threads are network.lanes each

  // "double precision on the host, 2 threads"; of a device, how its blocks ran last.
  std::string MachineText() const;
  // Whether times are a CPU's.
  bool RunsOnCpu() const { return !device || device->is_stand_in(); }
};
Result<MultigridSettings> SettingsOf(const SolveSpec& spec, const multigrid::Problem& problem,
                                     std::shared_ptr<MultigridRanks> ranks);

}  // namespace ucudnn::command
