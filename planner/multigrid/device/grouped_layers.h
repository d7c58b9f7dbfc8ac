// The layers of a rank's part of a stage on its device, all blocks of a level side by side.
#pragma once

#include <memory>

#include "base/status.h"
#include "planner/multigrid/device/cycle_graphs.h"
#include "planner/multigrid/device/device_exchange.h"
#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/distributed/stage_layers.h"
#include "planner/multigrid/stage_solver.h"

namespace ucudnn::multigrid {

struct GroupedSetting {
  bool is_recorded = false;    // cycles as graphs
  size_t workspace_limit = 0;  // bytes
};

class GroupedMaker : public StageMaker {
 public:
  // As DeviceMaker::Make.
  static Result<std::unique_ptr<GroupedMaker>> Make(const DeviceTarget& target,
                                                    const StageToSolve& stage,
                                                    const GroupedSetting& setting,
                                                    std::shared_ptr<RankChannel> channel);

  Result<std::unique_ptr<StageLayers>> Make(const StagePart& part) override;
  StateExchange& exchange() override { return *exchange_; }

 private:
  GroupedMaker(const DeviceTarget& target, const GroupedSetting& setting)
      : target_(target), setting_(setting) {}

  DeviceTarget target_;
  GroupedSetting setting_;
  std::shared_ptr<DeviceLanes> lanes_;
  std::unique_ptr<DeviceExchange> exchange_;
};

}  // namespace ucudnn::multigrid
