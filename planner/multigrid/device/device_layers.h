// The layers of a rank's part of a stage on its device. Blocks run either on lanes that are
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
  int lanes = 1;               // one if blocks run side by side
  bool is_recorded = false;    // cycles run as graphs
  size_t workspace_limit = 0;  // bytes of all lanes together
};

// What the parts of one rank share.
struct DeviceShared {
  std::shared_ptr<DeviceLanes> streams;
  std::shared_ptr<DeviceExchange> exchange;
  std::shared_ptr<RankChannel> replicas;  // null if the stage has no replicas
};

class DeviceMaker : public StageMaker {
 public:
  // `channel` is null if the rank is alone, and `replicas` if the stage has none. Cycles may be
  // recorded only if `channel` can be captured. What `target` points to outlives the maker.
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
