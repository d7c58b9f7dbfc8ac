// Counts the elements that a schedule moves and keeps. Pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

struct MovedElements {
  int64_t sent = 0;
  int64_t received = 0;
};

// Elements of one device in one step, forward and backward.
struct DeviceElements {
  MovedElements transfer;
  MovedElements update;
  MovedElements statistics;
  MovedElements labels;    // counts images whose label the device sends or receives
  int64_t parameters = 0;  // values only, without gradients
  int64_t outputs = 0;  // outputs, partial sums and attention scores kept until the backward pass
  // Copies of inputs that are kept until the backward pass. If copies feed passes, counts the most
  // that are kept at a time: the copies for one pass and for the next one.
  int64_t copies = 0;
};

struct ScheduleElements {
  int64_t transfer = 0;
  int64_t update = 0;
  int64_t statistics = 0;
  int64_t labels = 0;  // counts images whose label a device sends
  std::vector<DeviceElements> devices;
};

ScheduleElements ElementsOf(const Schedule& schedule);

}  // namespace ucudnn::planner
