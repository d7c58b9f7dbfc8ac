// The layers of a rank's part of a stage, on the rank's device. Blocks run either on lanes that are
// streams, or side by side.
#pragma once

#include <memory>

#include "base/status.h"
#include "planner/multigrid/device/device_chain.h"
#include "planner/multigrid/device/device_exchange.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/distributed/stage_layers.h"
#include "planner/multigrid/distributed/stage_solver.h"

namespace ucudnn::multigrid {

struct LaneSetting {
  Way way = Way::kStreams;
  int lanes = 1;               // 1 if blocks run side by side
  bool is_recorded = false;    // whether cycles run as CUDA graphs
  size_t workspace_limit = 0;  // bytes for all lanes together
};

// Returns the maker of this rank's layers of `stage`. `channel` is null if the rank is alone, and
// `replicas` is null if the stage has no replicas. Cycles may be recorded only if `channel` can be
// captured. Everything to which `target` points must outlive the layers.
Result<StageMaker> DeviceMaker(const DeviceTarget& target, const StageToSolve& stage,
                               const LaneSetting& setting, std::shared_ptr<RankChannel> channel,
                               std::shared_ptr<RankChannel> replicas);

}  // namespace ucudnn::multigrid
