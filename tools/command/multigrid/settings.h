// The problem and the settings that the options of `ucudnn multigrid` define on this machine. Used
// from main's thread only.
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

// Reads the problem that --weights, --layers, --seed, --time and similar options define. Without
// --weights, `drawn` says what is drawn at random: parameters and image, only the image, or
// nothing. With kImage, each process draws the parameters of its own layers later.
enum class Drawn { kAll, kImage, kNothing };
Result<multigrid::Problem> ReadProblem(const SolveSpec& spec, Drawn drawn);

// How and where a problem is solved.
struct MultigridSettings {
  multigrid::NetworkSettings network;
  std::shared_ptr<MultigridDevice> device;  // the device that solves stages; null: the host
  std::shared_ptr<MultigridRanks> ranks;    // each rank has network.lanes threads

  // Returns MultigridDevice::Text() if there is a device. Otherwise formats as "double precision on
  // the host, 2 threads"; if there are several ranks, the text describes them, too.
  std::string MachineText() const;
  // Returns whether solves run on the CPU: on the host or on the stand-in.
  bool RunsOnCpu() const { return !device || device->is_stand_in(); }
};
Result<MultigridSettings> SettingsOf(const SolveSpec& spec, const multigrid::Problem& problem,
                                     std::shared_ptr<MultigridRanks> ranks);

}  // namespace ucudnn::command
