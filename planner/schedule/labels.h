// Which labels of images travel, since a device computes a loss of images that it does not load.
// Pure function.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// For each output of the network and device that has a part of it: the images that the device does
// not load, from the first device that does. Reads the schedule's nodes alone; of several inputs,
// labels come with the first.
std::vector<LabelMessage> LabelsOf(const Schedule& schedule);

}  // namespace ucudnn::planner
