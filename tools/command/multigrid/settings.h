// Applies a spec of `ucudnn multigrid` to a problem and this machine. Used from main's thread only.
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

// Reads the problem that --weights, --layers, --seed, --time and similar options define. `drawn`
// says what is drawn if no file has the weights; processes draw the parameters of their own layers
// later.
enum class Drawn { kAll, kImage, kNothing };
Result<multigrid::Problem> ReadProblem(const SolveSpec& spec, Drawn drawn);

// How and where a problem is solved.
struct MultigridSettings {
  multigrid::NetworkSettings network;
  std::shared_ptr<MultigridDevice> device;  // the device that solves stages; null: the host
  std::shared_ptr<MultigridRanks> ranks;    // each rank has network.lanes threads

  // Formats as "double precision on the host, 2 threads" or, if there is a device, as
  // MultigridDevice::Text does. If there are several ranks, also says which ranks they are.
  std::string MachineText() const;
  // Returns whether times are CPU times.
  bool RunsOnCpu() const { return !device || device->is_stand_in(); }
};
Result<MultigridSettings> SettingsOf(const SolveSpec& spec, const multigrid::Problem& problem,
                                     std::shared_ptr<MultigridRanks> ranks);

}  // namespace ucudnn::command
