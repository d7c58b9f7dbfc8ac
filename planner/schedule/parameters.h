// The part of a node's parameters that each device has. Pure function.
#pragma once

#include <vector>

#include "base/status.h"
#include "planner/cost/layer_graph.h"
#include "planner/schedule/schedule.h"

namespace ucudnn::planner {

// Divides the parameters of `node` over the devices of `configuration`. `layer` is the node itself
// or the layer that it follows; `input` is the shape of the node's first input. Weights are divided
// by the channels that a device computes and sums over, biases and scales by the channels that it
// keeps. If a division is impossible, the error says why.
Result<std::vector<ScheduledParameter>> DivideParameters(
    const Node& node, const Shape& input, const PlannedLayer& layer,
    const ParallelConfiguration& configuration);

}  // namespace ucudnn::planner
