// Counts how many elements a schedule moves and keeps. Pure function.
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
  MovedElements labels;    // images whose label travels
  int64_t parameters = 0;  // values alone, without gradients
  int64_t outputs = 0;  // of layers, kept until their backward pass, with partial sums and scores
  int64_t copies = 0;  // of inputs that arrive, kept likewise; with passes, of two passes at a time
};

struct ScheduleElements {
  int64_t transfer = 0;
  int64_t update = 0;
  int64_t statistics = 0;
  int64_t labels = 0;  // images whose label travels
  std::vector<DeviceElements> devices;
};

ScheduleElements ElementsOf(const Schedule& schedule);

}  // namespace ucudnn::planner
