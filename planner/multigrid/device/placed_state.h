// A state on a device, either alone or in an array of states that lie side by side.
#pragma once

#include "planner/multigrid/device/device_memory.h"
#include "planner/multigrid/device/step_kernels.h"
#include "planner/multigrid/propagator.h"

namespace ucudnn::multigrid {

// States of all images: [image, count, C, H, W].
struct StatesArray {
  DeviceNumbers numbers;
  int number = 0;  // position in the owner's list of arrays
  int64_t count = 1;
};

struct PlacedState {
  const StatesArray* array = nullptr;
  int64_t index = 0;
  StatesView view;  // a view of this state alone

  static const PlacedState& Of(State state) { return *static_cast<const PlacedState*>(state); }
};

}  // namespace ucudnn::multigrid
