// What a grouped system has of each level: for its own sources alone.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/multigrid/device/cycle_graphs.h"
#include "planner/multigrid/device/device_weights.h"
#include "planner/multigrid/device/grouped_system.h"
#include "planner/multigrid/device/step_plan.h"

namespace ucudnn::multigrid {

struct GroupedSystem::Run {
  std::unique_ptr<StepRunner> runner;
  std::shared_ptr<DeviceLanes> lanes;
};

// The states of one level, by their places in blocks. B blocks, c places.
struct GroupedSystem::Grid {
  Level level;
  int tail = 0;  // steps behind the last C-point
  // B + 1 C-points, and what Advance makes of them.
  std::optional<DeviceNumbers> c_points, advanced;
  std::vector<DeviceNumbers> f_points;  // places 1 to c - 1, B states each
  std::optional<DeviceNumbers> spare;   // B states
  std::vector<DeviceNumbers> tail_points;
  // The right side of each place's step: by place B states, and the tail's. Empty where there is
  // none.
  std::vector<DeviceNumbers> sources, tail_sources;
  // Of the steps at each place of all blocks, and of each of the tail.
  std::vector<StepPlan> plans, tail_plans;
  // Of an adjoint's level whose steps stand for several layers: what its steps are linearised at,
  // by place.
  std::vector<DeviceNumbers> linear, tail_linear;
  // Of an adjoint's finest level, by place and call of its plan.
  std::vector<std::vector<DeviceGradients>> gradients, tail_gradients;

  static constexpr int kAllBlocks = -1;  // in place of a block's number
  static StepRunner::States StatesOf(const StatesView& view) {
    return {view.data, view.image_distance};
  }

  int blocks() const { return level.blocks(); }
  int places() const { return level.coarsening; }
};

}  // namespace ucudnn::multigrid
