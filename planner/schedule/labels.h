// The labels that devices send each other, because a device may compute the loss of an image that
// it does not load. Pure function.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// Lists, for each output of the network and each device with a part of it, the images that the
// device does not load. The first device that loads them sends their labels. Reads only the
// schedule's nodes. If the network has several inputs, labels are loaded with the first input.
std::vector<LabelMessage> LabelsOf(const Schedule& schedule);

}  // namespace ucudnn::planner
