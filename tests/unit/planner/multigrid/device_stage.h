// Holds one stage of a chain and its solver on a device, for tests and benches. Must not be moved.
#pragma once

#include <memory>
#include <string>

#include "planner/multigrid/device/device_solvers.h"
#include "tests/support/must.h"
#include "unit/planner/multigrid/alone_stage.h"

namespace ucudnn::multigrid {

struct WayAndLaunch {
  Way way = Way::kStreams;
  Launch launch = Launch::kEach;

  std::string Name() const { return std::string(NameOf(way)) + ", " + NameOf(launch); }
};
inline constexpr WayAndLaunch kWaysAndLaunches[] = {{Way::kStreams, Launch::kEach},
                                                    {Way::kGrouped, Launch::kEach},
                                                    {Way::kStreams, Launch::kGraph},
                                                    {Way::kGrouped, Launch::kGraph}};

struct DeviceStage {
  // `chain` must outlive this object.
  DeviceStage(const DeviceTarget& target, const WeightedChain& chain, const SolveSetting& setting,
              const WayAndLaunch& run, int lanes = 3, size_t workspace_limit = 1 << 20)
      : stage(chain, setting) {
    DeviceSolvers solvers(
        target,
        {.way = run.way, .launch = run.launch, .lanes = lanes, .workspace_limit = workspace_limit});
    solver = test::Must(solvers.Make(stage.ToSolve()));
  }

  AloneStage stage;
  std::unique_ptr<StageSolver> solver;  // without weights until its LoadWeights
};

}  // namespace ucudnn::multigrid
