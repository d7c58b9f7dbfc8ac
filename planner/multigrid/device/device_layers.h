// The layers of a rank's part of a stage on its device: blocks on lanes that are streams, or side
// by side.
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
  int lanes = 1;               // one where blocks run side by side
  bool is_recorded = false;    // cycles as graphs
  size_t workspace_limit = 0;  // of all lanes together, bytes
};

// What the parts of one rank have in common.
struct DeviceShared {
  std::shared_ptr<DeviceLanes> streams;
  std::shared_ptr<DeviceExchange> exchange;
  std::shared_ptr<RankChannel> replicas;  // null where there is one
};

class DeviceMaker : public StageMaker {
 public:
  // `channel` is null where the rank is alone, `replicas` where the stage has none; cycles are
  // recorded only where it can be captured. What `target` points to outlives it.
  static Result<std::unique_ptr<DeviceMaker>> Make(const DeviceTarget& target,
                                                   const StageToSolve& stage,
                                                   const LaneSetting& setting,
                                                   std::shared_ptr<RankChannel> channel,
                                                   std::shared_ptr<RankChannel> replicas);

  Result<std::unique_ptr<StageLayers>> Make(const StagePart& part) override;
  StateExchange& exchange() override { return *shared_.exchange; }

 private:
  DeviceMaker(const DeviceTarget& target, const LaneSetting& setting, Lanes lanes)
      : target_(target), setting_(setting), lanes_(std::move(lanes)) {}

  DeviceTarget target_;
  LaneSetting setting_;
  Lanes lanes_;
  DeviceShared shared_;
};

}  // namespace ucudnn::multigrid
