// Which labels of images travel because a device computes a loss of images that it does not load.
// Pure function.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// Lists, for each output of the network and each device with a part of it, the images that the
// device does not load. Their labels come from the first device that loads them. Reads only the
// schedule's nodes. If there are several inputs, labels come with the first.
std::vector<LabelMessage> LabelsOf(const Schedule& schedule);

}  // namespace ucudnn::planner
